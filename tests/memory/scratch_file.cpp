#include "memory/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "memory/process.h"
#include "support/disk_folder.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"

namespace plimsoll::memory {
namespace {

using ::testing::AllOf;
using testing::DiskFolder;
using testing::error_of;
using testing::FileSizeLimit;
using ::testing::HasSubstr;
using Cache = ScratchFile::Cache;

// The deleted file in `folder` that this process has open, by its name under /proc; empty when there is none.
std::string open_file_in(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.starts_with(folder) && target.ends_with(" (deleted)")) return entry.path();
  }
  return "";
}

Bytes pages_in_cache(const std::string& path, Bytes bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const mapping = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  std::vector<unsigned char> pages(bytes / Arena::kPage);
  EXPECT_EQ(::mincore(mapping, bytes, pages.data()), 0);
  ::munmap(mapping, bytes);
  ::close(file);
  Bytes count = 0;
  for (const unsigned char page : pages) count += page & 1;
  return count;
}

ErrorKind kind_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::General;
}

std::vector<unsigned char> noise(Bytes bytes, uint64_t key) {
  std::vector<unsigned char> numbers(bytes);
  for (Bytes i = 0; i < bytes; ++i) numbers[i] = static_cast<unsigned char>(mix_bits(key, i));
  return numbers;
}

class ScratchFileBothWays : public ::testing::TestWithParam<Cache> {};

TEST_P(ScratchFileBothWays, GivesBackWhatWasWrittenAtAnyAddressAndLength) {
  const DiskFolder folder;
  ScratchFile file(folder, 24 * MiB, GetParam());
  const Bytes block = ScratchFile::kBlock;
  Arena arena(12 * MiB), back(12 * MiB);
  arena.commit(arena.maximum());
  back.commit(back.maximum());
  Bytes at = 0;
  for (const Bytes bytes :
       {Bytes(1), Bytes(63), block - 1, block, block + 1, MiB - 1, MiB, MiB + 1, 2 * MiB + 12345, 9 * MiB + 3}) {
    for (const Bytes from : {Bytes(0), Bytes(1), Bytes(64), Bytes(512), block + 64}) {
      const std::vector<unsigned char> numbers = noise(bytes, from);
      std::memcpy(arena.data() + from, numbers.data(), bytes);
      file.write(at, arena.data() + from, bytes);
      // The reader's address differs from the writer's, and nothing around the bytes changes.
      const Bytes to = 64 + 3 * from;
      std::memset(back.data(), 0xAB, to + bytes + 64);
      file.read(at, back.data() + to, bytes);
      ASSERT_EQ(std::memcmp(back.data() + to, numbers.data(), bytes), 0) << bytes << " from " << from;
      ASSERT_EQ(back.data()[to - 1], std::byte{0xAB});
      ASSERT_EQ(back.data()[to + bytes], std::byte{0xAB});
      at = (at + 3 * block) % (8 * MiB);
    }
  }
}

TEST_P(ScratchFileBothWays, KeepsNeighboursApart) {
  const DiskFolder folder;
  const Bytes block = ScratchFile::kBlock;
  ScratchFile file(folder, 64 * block, GetParam());
  const auto bytes_of = [&](int i) { return 2 * block - i; };
  for (int i = 31; i >= 0; --i) file.write(2 * i * block, noise(bytes_of(i), i).data(), bytes_of(i));
  for (int i = 0; i < 32; ++i) {
    std::vector<unsigned char> back(bytes_of(i));
    file.read(2 * i * block, back.data(), bytes_of(i));
    EXPECT_EQ(back, noise(bytes_of(i), i)) << i;
  }
}

TEST_P(ScratchFileBothWays, LeavesNothingInThePageCache) {
  const DiskFolder folder;
  ScratchFile file(folder, 16 * MiB, GetParam());
  std::vector<unsigned char> numbers = noise(16 * MiB, 1);
  file.write(0, numbers.data(), 16 * MiB);
  file.read(0, numbers.data(), 16 * MiB);
  EXPECT_LE(pages_in_cache(open_file_in(folder), 16 * MiB), 16 * MiB / Arena::kPage / 100);
}

INSTANTIATE_TEST_SUITE_P(ScratchFile, ScratchFileBothWays, ::testing::Values(Cache::Bypassed, Cache::DroppedBehind),
                         [](const auto& way) { return way.param == Cache::Bypassed ? "Bypassed" : "DroppedBehind"; });

TEST(ScratchFile, HasNoNameAndEndsWithItsObject) {
  const DiskFolder folder;
  {
    const ScratchFile file(folder, 5 * MiB + 1);
    EXPECT_EQ(file.bytes(), 5 * MiB + ScratchFile::kBlock);
    EXPECT_TRUE(folder.is_empty());
    EXPECT_NE(open_file_in(folder), "");
  }
  EXPECT_EQ(open_file_in(folder), "");
}

TEST(ScratchFile, TakesItsSpaceAtOnce) {
  const DiskFolder folder;
  const ScratchFile file(folder, 32 * MiB);
  struct stat facts;
  ASSERT_EQ(::stat(open_file_in(folder).c_str(), &facts), 0);
  EXPECT_GE(facts.st_blocks * 512, 32 * MiB);
}

TEST(ScratchFile, OfNoBytesIsFine) {
  const DiskFolder folder;
  ScratchFile file(folder, 0);
  file.write(0, nullptr, 0);
  EXPECT_EQ(file.bytes(), 0);
}

TEST(ScratchFile, RefusesADiskThatIsTooSmall) {
  const DiskFolder folder;
  const Bytes wanted = available_disk_bytes(folder) + 100 * GiB;
  const auto make = [&] { const ScratchFile file(folder, wanted); };
  EXPECT_EQ(kind_of(make), ErrorKind::DiskFull);
  EXPECT_THAT(error_of(make), AllOf(HasSubstr(folder), HasSubstr(format_bytes(wanted) + " wanted"), HasSubstr(" free"),
                                    HasSubstr("folder")));
}

TEST(ScratchFile, RefusesMoreThanTheLimitOnFilesWithoutASignal) {
  const DiskFolder folder;
  const FileSizeLimit limit(MiB);
  std::signal(SIGXFSZ, SIG_DFL);  // would end the test
  const auto make = [&] { const ScratchFile file(folder, 2 * MiB); };
  EXPECT_EQ(kind_of(make), ErrorKind::DiskFull);
  EXPECT_THAT(error_of(make), AllOf(HasSubstr("2 MiB wanted"), HasSubstr("'ulimit -f' allows a file 1 MiB only")));
  const ScratchFile fits(folder, MiB);
}

TEST(ScratchFile, RefusesAFolderInMemory) {
  if (!is_memory_backed("/dev/shm")) GTEST_SKIP() << "no /dev/shm in memory here";
  const auto make = [] { const ScratchFile file("/dev/shm", MiB); };
  EXPECT_EQ(kind_of(make), ErrorKind::Usage);
  EXPECT_THAT(error_of(make), AllOf(HasSubstr("'/dev/shm' is a folder in memory"), HasSubstr("folder")));
  EXPECT_THAT(error_of([] { measure_disk("/dev/shm"); }), HasSubstr("memory"));
}

TEST(ScratchFile, RefusesAFolderThatIsNone) {
  const DiskFolder folder;
  const std::string missing = std::string(folder) + "/missing";
  EXPECT_THAT(error_of([&] { const ScratchFile file(missing, MiB); }), HasSubstr(missing));
  EXPECT_THAT(error_of([] { const ScratchFile file("/proc/self/exe", MiB); }), HasSubstr("'/proc/self/exe'"));
}

TEST(ScratchFile, NamesTheFolderAndThePlaceOfAFailure) {
  const DiskFolder folder;
  ScratchFile file(folder, 4 * MiB);
  std::vector<unsigned char> numbers(MiB);
  {
    const FileSizeLimit limit(MiB);
    const auto write = [&] { file.write(2 * MiB, numbers.data(), MiB); };
    EXPECT_EQ(kind_of(write), ErrorKind::DiskFull);
    EXPECT_THAT(error_of(write), AllOf(HasSubstr(folder), HasSubstr("writing 1 MiB at byte 2097152")));
  }
  ASSERT_EQ(::truncate(open_file_in(folder).c_str(), 3 * MiB), 0);
  EXPECT_THAT(error_of([&] { file.read(3 * MiB, numbers.data(), MiB); }),
              AllOf(HasSubstr(folder), HasSubstr("reading 1 MiB at byte 3145728"), HasSubstr("ends there")));
  file.read(2 * MiB, numbers.data(), MiB);
}

TEST(MeasureDisk, AnswersSoonAndLeavesNothing) {
  const DiskFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const DiskSpeed speed = measure_disk(folder);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GT(speed.read_bytes_per_s, 1e5);
  EXPECT_GT(speed.write_bytes_per_s, 1e5);
  EXPECT_LT(seconds, 5);  // 0.2 s on an idle machine
  EXPECT_TRUE(folder.is_empty());
}

TEST(MeasureDisk, TakesNoMoreThanItMay) {
  const DiskFolder folder;
  const FileSizeLimit limit(4 * MiB);
  EXPECT_THAT(error_of([&] { measure_disk(folder); }), HasSubstr("64 MiB wanted"));
  EXPECT_GT(measure_disk(folder, 4 * MiB + 5).read_bytes_per_s, 0);
}

}  // namespace
}  // namespace plimsoll::memory
