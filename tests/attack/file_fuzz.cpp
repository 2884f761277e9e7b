#include "attack/file_fuzz.h"

#include <omp.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "attack/counted_memory.h"
#include "attack/effort.h"
#include "attack/mutate.h"

namespace plimsoll::testing {
namespace {

constexpr int kFound = 3;  // the exit code of a child that found a fault

// Shared with the child, so that it can be read after a crash too.
struct Progress {
  int64_t round = 0;
  int64_t accepted = 0;
  Bytes most_bytes = 0;
  char fault[1000] = {};
};

int run(Progress& progress, const std::vector<std::string>& files, const Effort& effort, Bytes most_bytes,
        const std::function<void(const std::string& damaged)>& read) {
  for (; effort.goes_on(progress.round); ++progress.round) {
    const std::string damaged = mutate(files, static_cast<uint64_t>(progress.round));
    reset_peak_allocated();
    const Bytes before = allocated_bytes();
    std::string fault;
    try {
      read(damaged);
      ++progress.accepted;
    } catch (const Error& e) {
      if (std::strlen(e.what()) == 0) fault = "an Error without words";
    } catch (const std::exception& e) {
      fault = fmt::format("no Error: {}", e.what());
    }
    const Bytes taken = peak_allocated_bytes() - before;
    progress.most_bytes = std::max(progress.most_bytes, taken);
    if (taken > most_bytes + 64 * static_cast<Bytes>(damaged.size()))
      fault = fmt::format("{} taken for a file of {} bytes", format_bytes(taken), damaged.size());
    if (fault.empty()) continue;
    fault.copy(progress.fault, sizeof progress.fault - 1);
    return kFound;
  }
  return 0;
}

}  // namespace

MemoryFile::MemoryFile() : file_(::memfd_create("attack", MFD_CLOEXEC)) {}
MemoryFile::~MemoryFile() { ::close(file_); }
std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", file_); }
void MemoryFile::set(const std::string& content) const {
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, content.data(), content.size(), 0) < 0)
    throw std::runtime_error("the file in memory can't be written");
}

FileFuzz::FileFuzz() { ::omp_set_num_threads(1); }  // a child has none of its parent's threads

void FileFuzz::attack(const std::vector<std::string>& files, int64_t short_rounds, Bytes most_bytes,
                      const std::function<void(const std::string& damaged)>& read) {
  auto* progress = static_cast<Progress*>(
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(progress, MAP_FAILED);
  new (progress) Progress;
  const Effort effort(short_rounds, 1.0 / 8);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(run(*progress, files, effort, most_bytes, read));
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string kept = ::testing::TempDir() + "attack_" + name;
    std::ofstream(kept, std::ios::binary) << mutate(files, static_cast<uint64_t>(progress->round));
    ADD_FAILURE() << "round " << progress->round << " (" << kept << ") "
                  << (WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status)) : progress->fault);
  }
  fmt::print("{}: {} damaged files, {} accepted, at most {} taken\n", name, progress->round, progress->accepted,
             format_bytes(progress->most_bytes));
  ::munmap(progress, sizeof(Progress));
}

}  // namespace plimsoll::testing
