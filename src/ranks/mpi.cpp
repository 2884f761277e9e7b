// Ranks that mpirun or srun started: point-to-point messages, a deadline, and which rank does not answer when it
// passes.
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ranks/communicator.h"
#include "ranks/mpi_module.h"

// The build names it; a check that compiles a folder as one source does not.
#ifndef PLIMSOLL_LIBRARY_FOLDER
#define PLIMSOLL_LIBRARY_FOLDER "lib"
#endif

namespace plimsoll::ranks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

enum Tag : int { kData = 1, kQuestion = 2, kAnswer = 3, kFailure = 4 };
enum RequestNumber : int { kSend = 0, kReceive = 1, kControl = 2 };
constexpr Bytes kMostBytes = Bytes{1} << 30;  // of one message: MPI counts in int
constexpr milliseconds kTimeToAnswer{2000};   // of a rank that is asked whether it is there

constexpr milliseconds kTimeToStop{200};  // to wait for a message after this rank was told to end

// What a rank that fails tells the others: so short that MPI sends it before the receiver asks for it.
struct FailureNote {
  int32_t exit_code = 0;
  char text[1020] = {};
};

constexpr const char* kModuleName = "libplimsoll_mpi.so";

// The folders of the program and of the library that this code is part of.
std::vector<std::filesystem::path> own_folders() {
  std::error_code none;
  std::vector folders = {std::filesystem::read_symlink("/proc/self/exe", none).parent_path()};
  Dl_info library{};
  if (::dladdr(kModuleName, &library) != 0 && std::string_view(library.dli_fname).find('/') != std::string_view::npos)
    folders.push_back(std::filesystem::weakly_canonical(library.dli_fname, none).parent_path());
  return folders;
}

// Looks for the module beside the program or library, in the library folder of the same installation, in the folder
// where a build puts it, and where the system looks. No path of the machine that built it is part of the program.
void* load_module() {
  std::vector<std::string> paths;
  for (const std::filesystem::path& folder : own_folders())
    for (const std::filesystem::path& at :
         {folder, folder.parent_path() / PLIMSOLL_LIBRARY_FOLDER, folder.parent_path() / "src"})
      paths.push_back((at / kModuleName).string());
  paths.emplace_back(kModuleName);
  for (const std::string& path : paths) {
    // Global: MPI loads parts of its own that look for its symbols.
    if (void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return module;
  }
  return nullptr;
}

const PlimsollMpi* find_functions() {
  static void* const module = load_module();
  if (module == nullptr) return nullptr;
  const auto get = reinterpret_cast<decltype(&plimsoll_mpi)>(::dlsym(module, "plimsoll_mpi"));
  return get == nullptr ? nullptr : get();
}

class MpiRank final : public Communicator {
 public:
  MpiRank(const PlimsollMpi& mpi, int rank, int size, milliseconds timeout, std::function<bool()> is_end_asked)
      : Communicator(rank, size), mpi_(mpi), timeout_(timeout), is_end_asked_(std::move(is_end_asked)) {}
  // After a failure, others may be gone: MPI would wait for them.
  ~MpiRank() override {
    if (!has_failed()) mpi_.finish();
  }

  void abort(const std::string& /*message*/, int exit_code) noexcept override { mpi_.abort(exit_code); }
  void announce(const std::string& message, int exit_code) noexcept override {
    FailureNote note{.exit_code = exit_code};
    message.copy(note.text, sizeof note.text - 1);
    const Clock::time_point begin = Clock::now();
    for (int other = 0; other < size(); ++other) {
      if (other == rank() || mpi_.start_send(kControl, &note, sizeof note, other, kFailure) != 0) continue;
      int is_done = 0;
      while (mpi_.test(kControl, &is_done) == 0 && is_done == 0 && Clock::now() - begin < kTimeToAnswer)
        ::sched_yield();
    }
    set_failed(std::make_exception_ptr(Error(message, static_cast<ErrorKind>(exit_code))));
  }

 protected:
  void transfer(int peer, const void* send, Bytes send_bytes, void* receive, Bytes receive_bytes) override {
    const auto* from = static_cast<const std::byte*>(send);
    auto* into = static_cast<std::byte*>(receive);
    while (send_bytes > 0 || receive_bytes > 0) {
      const Bytes out = std::min(send_bytes, kMostBytes), in = std::min(receive_bytes, kMostBytes);
      transfer_piece(peer, from, out, into, in);
      from += out;
      into += in;
      send_bytes -= out;
      receive_bytes -= in;
    }
  }

 private:
  void transfer_piece(int peer, const std::byte* send, Bytes send_bytes, std::byte* receive, Bytes receive_bytes) {
    if (receive_bytes > 0)
      expect(mpi_.start_receive(kReceive, receive, static_cast<int>(receive_bytes), peer, kData), peer);
    if (send_bytes > 0) expect(mpi_.start_send(kSend, send, static_cast<int>(send_bytes), peer, kData), peer);
    bool receives = receive_bytes > 0, sends = send_bytes > 0;
    const auto is_done = [&] {
      receives = receives && !is_over(kReceive, peer);
      sends = sends && !is_over(kSend, peer);
      return !receives && !sends;
    };
    if (!wait(is_done, timeout_)) throw_silent(peer);
  }

  void expect(int error, int peer) const {
    if (error == 0) return;
    char text[256];
    mpi_.describe(error, text, sizeof text);
    throw Error(fmt::format("the message between ranks {} and {} failed: {}", rank(), peer, text), ErrorKind::RankLost);
  }

  bool is_over(int request, int peer) const {
    int is_done = 0;
    expect(mpi_.test(request, &is_done), peer);
    return is_done != 0;
  }

  // Ranks may have to share cores: a rank that waits longer yields its core.
  template <class Condition>
  bool wait(const Condition& condition, milliseconds limit) {
    constexpr int kSpins = 200;
    const Clock::time_point begin = Clock::now();
    Clock::duration ended_at = Clock::duration::max() - kTimeToStop;
    for (int64_t round = 0; !condition(); ++round) {
      if (round < kSpins) continue;
      const auto waited = Clock::now() - begin;
      if (waited > limit) return false;
      if (waited < std::chrono::milliseconds(1)) {
        ::sched_yield();
        continue;
      }
      answer_questions();
      if (is_end_asked_ && is_end_asked_()) {
        ended_at = std::min(ended_at, waited);
        if (waited > ended_at + kTimeToStop)
          throw Error(fmt::format("rank {} was ended while it waited for another", rank()), ErrorKind::RankLost);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(waited < milliseconds(20) ? 20 : 200));
    }
    return true;
  }

  void expect_nobody_failed() {
    int source = -1;
    if (mpi_.probe(kMpiAnySource, kFailure, &source) != 0 || source < 0) return;
    FailureNote note;
    expect(mpi_.start_receive(kControl, &note, sizeof note, source, kFailure), source);
    while (!is_over(kControl, source)) ::sched_yield();
    note.text[sizeof note.text - 1] = 0;
    throw Error(note.text, static_cast<ErrorKind>(note.exit_code));
  }

  // A rank that waits still answers others that ask whether it is there.
  void answer_questions() {
    expect_nobody_failed();
    int source = -1;
    if (mpi_.probe(kMpiAnySource, kQuestion, &source) != 0 || source < 0) return;
    char question = 0;
    const char answer = 1;
    expect(mpi_.start_receive(kControl, &question, 1, source, kQuestion), source);
    while (!is_over(kControl, source)) ::sched_yield();
    expect(mpi_.start_send(kControl, &answer, 1, source, kAnswer), source);
    while (!is_over(kControl, source)) ::sched_yield();
  }

  [[noreturn]] void throw_silent(int peer) {
    std::vector<int> silent;
    for (int other = 0; other < size(); ++other)
      if (other != rank()) silent.push_back(other);
    const char question = 1;
    for (const int other : silent) {
      expect(mpi_.start_send(kControl, &question, 1, other, kQuestion), other);
      while (!is_over(kControl, other)) ::sched_yield();  // done even when the receiver is silent: MPI buffers it
    }
    wait(
        [&] {
          int source = -1;
          if (mpi_.probe(kMpiAnySource, kAnswer, &source) == 0 && source >= 0) {
            char answer = 0;
            expect(mpi_.start_receive(kControl, &answer, 1, source, kAnswer), source);
            while (!is_over(kControl, source)) ::sched_yield();
            std::erase(silent, source);
          }
          return silent.empty();
        },
        kTimeToAnswer);
    const double seconds = std::chrono::duration<double>(timeout_).count();
    if (silent.empty())
      throw Error(
          fmt::format("rank {} sent nothing for {} s, though it answers: the ranks are not in step", peer, seconds),
          ErrorKind::RankLost);
    throw Error(fmt::format("rank{} {} {} not answered for {} s; the others were ended", silent.size() > 1 ? "s" : "",
                            fmt::join(silent, ", "), silent.size() > 1 ? "have" : "has", seconds),
                ErrorKind::RankLost);
  }

  const PlimsollMpi& mpi_;
  const milliseconds timeout_;
  const std::function<bool()> is_end_asked_;
};

}  // namespace

bool has_mpi() { return find_functions() != nullptr; }

std::shared_ptr<Communicator> open_mpi(milliseconds timeout, const std::function<bool()>& is_end_asked) {
  const PlimsollMpi* mpi = find_functions();
  if (mpi == nullptr)
    throw Error(
        "ranks need MPI, which can't be loaded; install the package plimsoll-ranks, or libopenmpi-dev and openmpi-bin "
        "and "
        "build again",
        ErrorKind::Usage);
  int rank = 0, size = 1;
  if (const int error = mpi->init(&rank, &size); error != 0)
    throw Error(fmt::format("MPI does not start: error {}", error));
  return std::make_shared<MpiRank>(*mpi, rank, size, timeout, is_end_asked);
}

}  // namespace plimsoll::ranks
