#include "memory/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/disk_folder.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"

namespace plimsoll::memory {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void save(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}

mode_t mode_of(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

class OutputFileTest : public ::testing::Test {
 protected:
  int entries() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.operator const std::string&())) ++count;
    return count;
  }
  testing::DiskFolder folder;
  std::string path = static_cast<const std::string&>(folder) + "/file";
};

TEST_F(OutputFileTest, ReplacesAsAWholeOrNotAtAll) {
  save(path, "old");
  {
    OutputFile file(path);
    file.write(std::string(100'000, 'x'));
    EXPECT_EQ(content(path), "old");
  }
  EXPECT_EQ(content(path), "old");
  const std::string text = std::string(70'000, 'a') + "b";
  save(path, text);
  EXPECT_EQ(content(path), text);
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, AFullDiskKeepsTheOldFile) {
  save(path, "old");
  const testing::FileSizeLimit limit(100'000);
  try {
    save(path, std::string(200'000, 'x'));
    ADD_FAILURE() << "it fitted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::DiskFull) << e.what();
    EXPECT_THAT(e.what(), HasSubstr(path));
  }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, KeepsPermissionsOfWhatItReplaces) {
  const mode_t before = ::umask(027);
  save(path, "new");
  EXPECT_EQ(mode_of(path), 0640U);
  ::umask(before);
  ASSERT_EQ(::chmod(path.c_str(), 0604), 0);
  save(path, "newer");
  EXPECT_EQ(mode_of(path), 0604U);
}

TEST_F(OutputFileTest, KeepsTheOwnerOfWhatItReplaces) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file to another user";
  save(path, "new");
  ASSERT_EQ(::chown(path.c_str(), 1234, 2345), 0);
  save(path, "newer");
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 1234U);
  EXPECT_EQ(facts.st_gid, 2345U);
}

TEST_F(OutputFileTest, FollowsLinks) {
  fs::create_directory(path + ".d");
  fs::create_symlink("file.d/target", path);  // leads nowhere yet
  for (const char* text : {"one", "two"}) {
    save(path, text);
    EXPECT_TRUE(fs::is_symlink(path));
    EXPECT_EQ(content(path + ".d/target"), text);
  }
  EXPECT_EQ(entries(), 2);
  fs::create_symlink("round", static_cast<const std::string&>(folder) + "/round");
  EXPECT_THAT(error_of([&] { find_output_target(static_cast<const std::string&>(folder) + "/round"); }),
              HasSubstr("round"));
}

TEST_F(OutputFileTest, WritesThroughDevicesAndPipes) {
  save("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  try {
    save("/dev/full", "x");
    ADD_FAILURE() << "it fitted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::DiskFull) << e.what();
  }
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = content(path); });
  save(path, "through the pipe");
  reader.join();
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(OutputFileTest, RefusesWhatCannotBeWritten) {
  const std::string& here = folder;
  save(path, "text");
  for (const std::string& bad :
       {here, here + "/", here + "/none/file", path + "/below", here + "/" + std::string(250, 'n'), std::string()}) {
    try {
      find_output_target(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Usage) << e.what();
      EXPECT_THAT(e.what(), HasSubstr("'" + bad + "' can't be written: "));
    }
  }
  EXPECT_FALSE(find_output_target(here + "/" + std::string(200, 'n')).is_present);
}

TEST_F(OutputFileTest, RemovesWhatKilledProcessesLeft) {
  const std::string left = path + ".plimsoll-99999999-0", alive = path + ".plimsoll-99999998-0", other = path + ".tmp";
  for (const std::string& name : {left, alive, other}) std::ofstream(name) << "part";
  const int lock = ::open(alive.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  save(path, "new");
  ::close(lock);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(fs::exists(other));
}

}  // namespace
}  // namespace plimsoll::memory
