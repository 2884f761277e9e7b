#include "train/checkpoint_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"
#include "support/error_of.h"

namespace plimsoll::checkpoints {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

// The effective user while it lives: not root, who may write everywhere.
class PlainUser {
 public:
  PlainUser() {
    if (was_ == 0 && ::seteuid(kNobody) != 0) ADD_FAILURE() << "the effective user can't be changed";
  }
  ~PlainUser() {
    if (was_ == 0 && ::seteuid(was_) != 0) std::abort();
  }
  PlainUser(const PlainUser&) = delete;
  PlainUser& operator=(const PlainUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const uid_t was_ = ::geteuid();
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

void write(const std::string& path) { std::ofstream(path) << "content"; }

train::CheckpointPlace add(train::CheckpointFolder& folder, int64_t steps) {
  write(folder.begin() + "/file");
  return folder.place(steps);
}

TEST(CheckpointFolder, NumbersSavesAndKeepsTheNewest) {
  const TemporaryDirectory temporary;
  const std::string path = temporary.path() + "/deep/checkpoints";
  EXPECT_TRUE(train::list_checkpoints(path).empty());
  train::CheckpointFolder folder(path);
  EXPECT_EQ(add(folder, 50).path, path + "/000001-step-50");
  add(folder, 100);
  add(folder, 60);  // after a return to an earlier step
  EXPECT_THAT(names_in(path), ElementsAre("000001-step-50", "000002-step-100", "000003-step-60"));
  folder.keep_newest(2);
  const auto places = train::list_checkpoints(path);
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places.back().number, 3);
  EXPECT_EQ(places.back().steps, 60);
  EXPECT_TRUE(fs::exists(places.front().path + "/file"));
  folder.keep_newest(5);
  EXPECT_THAT(names_in(path), ElementsAre("000002-step-100", "000003-step-60"));
}

TEST(CheckpointFolder, WhatIsNotPlacedLeavesNothing) {
  const TemporaryDirectory temporary;
  {
    train::CheckpointFolder folder(temporary.path());
    write(folder.begin() + "/file");
    EXPECT_TRUE(train::list_checkpoints(temporary.path()).empty());
    folder.abandon();
    EXPECT_TRUE(fs::is_empty(temporary.path()));
    write(folder.begin() + "/file");
  }
  EXPECT_TRUE(fs::is_empty(temporary.path()));
}

TEST(CheckpointFolder, OtherNamesAreNoCheckpoints) {
  const TemporaryDirectory temporary;
  for (const char* name :
       {"step-5", "1-step-", "-step-5", "x1-step-5", "1-step-5x", "1-step--5", "notes", "99999999999999999999-step-1"})
    fs::create_directory(temporary.path() + "/" + name);
  write(temporary.path() + "/000004-step-9");  // a file
  EXPECT_TRUE(train::list_checkpoints(temporary.path()).empty());
  train::CheckpointFolder folder(temporary.path());
  EXPECT_EQ(add(folder, 7).number, 1);
  EXPECT_TRUE(fs::exists(temporary.path() + "/notes"));
}

// A process that is killed leaves its directories; the next one removes them.
TEST(CheckpointFolder, LeavingsOfAKilledProcessAreRemoved) {
  const TemporaryDirectory temporary;
  const pid_t child = ::fork();
  if (child == 0) {
    train::CheckpointFolder folder(temporary.path());
    add(folder, 1);
    write(folder.begin() + "/half");
    fs::create_directory(temporary.path() + "/.removed-7");
    ::_exit(0);  // without destructors
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(names_in(temporary.path()), ElementsAre(".begun", ".removed-7", "000001-step-1"));
  const train::CheckpointFolder folder(temporary.path());
  EXPECT_THAT(names_in(temporary.path()), ElementsAre("000001-step-1"));
}

TEST(CheckpointFolder, HasOneWriter) {
  const TemporaryDirectory temporary;
  {
    const train::CheckpointFolder folder(temporary.path());
    EXPECT_THAT(error_of([&] { train::CheckpointFolder{temporary.path()}; }), HasSubstr("another training writes"));
  }
  train::CheckpointFolder{temporary.path()};
}

TEST(CheckpointFolder, WhatCanNotBeWrittenIsRefusedAtOnce) {
  const TemporaryDirectory temporary;
  const std::string file = temporary.write("file", "text");
  for (const std::string& path : {std::string(), file, file + "/below", std::string("/proc/self/checkpoints")})
    EXPECT_THROW(train::CheckpointFolder{path}, Error) << path;
}

TEST(CheckpointFolder, AFolderWithoutPermissionIsRefusedAtOnce) {
  const TemporaryDirectory temporary;
  fs::permissions(temporary.path(), fs::perms::owner_read | fs::perms::owner_exec);
  {
    const PlainUser user;
    EXPECT_THAT(error_of([&] { train::CheckpointFolder{temporary.path()}; }), HasSubstr("Permission denied"));
  }
  fs::permissions(temporary.path(), fs::perms::owner_all);
}

}  // namespace
}  // namespace plimsoll::checkpoints
