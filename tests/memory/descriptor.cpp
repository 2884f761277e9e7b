#include "memory/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace plimsoll::memory {
namespace {

bool is_open_number(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST(Descriptor, ClosesItselfOnce) {
  int number = -1;
  {
    Descriptor first = Descriptor::open("/dev/null", O_RDONLY);
    ASSERT_TRUE(first.is_open());
    number = first;
    EXPECT_EQ(::fcntl(number, F_GETFD), FD_CLOEXEC);
    Descriptor second = std::move(first);
    EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): moving leaves it closed
    EXPECT_EQ(static_cast<int>(second), number);
    EXPECT_EQ(first.close(), 0);
    EXPECT_TRUE(is_open_number(number));
  }
  EXPECT_FALSE(is_open_number(number));
}

TEST(Descriptor, AssigningClosesWhatWasOpen) {
  Descriptor file = Descriptor::open("/dev/null", O_RDONLY);
  const int number = file;
  file = Descriptor();
  EXPECT_FALSE(file.is_open());
  EXPECT_FALSE(is_open_number(number));
}

TEST(Descriptor, RefusesWhatIsNotThere) {
  errno = 0;
  EXPECT_FALSE(Descriptor::open("/no/such/file", O_RDONLY).is_open());
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_FALSE(Descriptor::nameless("/no/such/folder").is_open());
  EXPECT_EQ(errno, ENOENT);
}

TEST(Descriptor, ClosingReportsWhatTheSystemSays) {
  Descriptor file = Descriptor::open("/dev/null", O_RDONLY);
  ASSERT_EQ(::close(file), 0);  // not through the Descriptor
  EXPECT_EQ(file.close(), EBADF);
  EXPECT_EQ(file.close(), 0);
}

TEST(Descriptor, NamelessFilesHoldBytesAndShowNowhere) {
  std::string folder = ::testing::TempDir() + "descriptor-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  {
    const Descriptor file = Descriptor::nameless(folder);
    ASSERT_TRUE(file.is_open());
    EXPECT_EQ(::pwrite(file, "line", 4, 0), 4);
    char read[4] = {};
    EXPECT_EQ(::pread(file, read, 4, 0), 4);
    EXPECT_EQ(std::string(read, 4), "line");
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove_all(folder);
}

TEST(DiskFull, KnowsItsReasons) {
  EXPECT_TRUE(is_disk_full(ENOSPC) && is_disk_full(EDQUOT) && is_disk_full(EFBIG));
  EXPECT_FALSE(is_disk_full(0) || is_disk_full(EIO) || is_disk_full(EACCES));
}

}  // namespace
}  // namespace plimsoll::memory
