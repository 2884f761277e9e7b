#include "memory/append_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"

namespace plimsoll::memory {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class AppendFileTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory folder_;
  const std::string path_ = folder_.path() + "/log";
};

TEST_F(AppendFileTest, RecordsAreThereAfterAFlush) {
  AppendFile file(path_, AppendFile::Content::Kept);
  file.append("one\n");
  EXPECT_EQ(content_of(path_), "");
  EXPECT_EQ(file.size(), 4);
  file.flush();
  EXPECT_EQ(content_of(path_), "one\n");
  // A full buffer is written without being asked for, and a record larger than the buffer at once.
  file.append(std::string(AppendFile::kBufferBytes - 1, 'a'));
  file.append("bc");
  EXPECT_EQ(std::filesystem::file_size(path_), 4U + AppendFile::kBufferBytes - 1);
  file.append(std::string(3 * AppendFile::kBufferBytes, 'd'));
  EXPECT_EQ(std::filesystem::file_size(path_), 5U + 4 * AppendFile::kBufferBytes);
}

TEST_F(AppendFileTest, ContentIsKeptOrDropped) {
  folder_.write("log", "old\n");
  {
    AppendFile file(path_, AppendFile::Content::Kept);
    EXPECT_EQ(file.size(), 4);
    file.append("more\n");
  }
  EXPECT_EQ(content_of(path_), "old\nmore\n");
  AppendFile file(path_, AppendFile::Content::Dropped);
  EXPECT_EQ(content_of(path_), "");
  file.append("fresh\n");
  file.cut(5);
  EXPECT_EQ(content_of(path_), "fresh");
  file.append("er\n");
  file.flush();
  EXPECT_EQ(content_of(path_), "fresher\n");
}

TEST_F(AppendFileTest, ARecordThatDoesNotFitOnTheDiskIsTakenBackWhole) {
  AppendFile file(path_, AppendFile::Content::Dropped);
  file.append("first\n");
  file.flush();
  {
    const testing::FileSizeLimit limit(10);
    file.append("0123456789\n");
    EXPECT_THAT(error_of([&] { file.flush(); }), HasSubstr("log' can't be written: File too large; free some space"));
    EXPECT_EQ(content_of(path_), "first\n");
  }
  file.append("later\n");
  file.flush();
  EXPECT_EQ(content_of(path_), "first\nlater\n");
}

TEST_F(AppendFileTest, RefusesWhatIsNoFileOrIsInUse) {
  const auto open = [&](const std::string& path) {
    return error_of([&] { AppendFile(path, AppendFile::Content::Dropped); });
  };
  EXPECT_THAT(open(folder_.path()), HasSubstr("Is a directory"));
  EXPECT_THAT(open(folder_.path() + "/missing/log"), HasSubstr("No such file"));
  EXPECT_THAT(open("/dev/null"), HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((folder_.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(open(folder_.path() + "/pipe"), HasSubstr("not a regular file"));
  const std::string kept = folder_.write("held", "as it was");
  const AppendFile holder(kept, AppendFile::Content::Kept);
  EXPECT_THAT(open(kept), HasSubstr("another process is writing it"));
  EXPECT_EQ(content_of(kept), "as it was");
}

}  // namespace
}  // namespace plimsoll::memory
