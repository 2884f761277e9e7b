#include "input/files/inflate.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"
#include "input/files/source.h"
#include "memory/process.h"
#include "memory/temporary_file.h"

namespace plimsoll::input {
namespace {

using namespace memory;

using testing::gzip;
using ::testing::HasSubstr;
using testing::idx;

constexpr int kCannotMount = 77;

// Runs `check` in a child that sees `directory` as a file system of 1 MiB.
template <typename Check>
int with_small_disk(const std::string& directory, Check check) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m") != 0)
      ::_exit(kCannotMount);
    check();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Inflate, SaysHowMuchAFullDiskLacks) {
  const testing::TemporaryDirectory dir, scratch;
  const std::string plain = idx(0x08, {3'000'000}, std::string(3'000'000, 'x'));
  // The end of the first file tells its size; of the second, cut into members, only the size of the last one.
  const std::string whole = dir.write("whole", gzip(plain));
  const std::string members = dir.write("members", gzip(plain.substr(0, 2'999'999)) + gzip(plain.substr(2'999'999)));
  const int result = with_small_disk(scratch.path(), [&] {
    EXPECT_TRUE(is_memory_backed(scratch.path()));
    for (const std::string& path : {whole, members}) {
      const std::string text = testing::refusal([&] { open_source(path, {scratch.path()}); }, ErrorKind::DiskFull);
      EXPECT_THAT(text, HasSubstr(path));
      EXPECT_THAT(text, HasSubstr("needs 3,000,008 bytes (2.86 MiB) in '" + scratch.path() + "'"));
      EXPECT_GT(available_disk_bytes(scratch.path()), 900 * KiB);
    }
  });
  if (result == kCannotMount) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(result, 0);
}

TEST(Inflate, PrefersTheAskedDirectoryThenADisk) {
  EXPECT_EQ(memory::choose_scratch_dir("/asked"), "/asked");
  EXPECT_FALSE(memory::choose_scratch_dir("").empty());
}

}  // namespace
}  // namespace plimsoll::input
