#include "memory/kept_facts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "memory/cgroup.h"
#include "support/disk_folder.h"

namespace plimsoll::memory {
namespace {

class KeptFacts : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_CACHE_HOME", cache_.c_str(), 1); }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }
  void write(const std::string& text) const {
    std::filesystem::create_directories(cache_ + "/plimsoll");
    std::ofstream(kept_facts_path()) << text;
  }
  testing::DiskFolder folder_;
  const std::string cache_ = static_cast<const std::string&>(folder_);
};

TEST_F(KeptFacts, ASpeedIsMeasuredOnceAndKept) {
  const KeptDiskSpeed first = kept_disk_speed(cache_, MiB);
  EXPECT_TRUE(first.is_measured);
  EXPECT_GT(first.speed.read_bytes_per_s, 0);
  // The speed that the file holds is used; the disk is not measured again.
  std::string text = read_small_file(kept_facts_path());
  ASSERT_NE(text.find(" read "), std::string::npos);
  write("disk 0 read 1 write 1\n" + text.substr(0, text.find(" read ")) + " read 4096 write 2048\n");
  const KeptDiskSpeed second = kept_disk_speed(cache_, MiB);
  EXPECT_EQ(second.speed.read_bytes_per_s, 4096);
  EXPECT_EQ(second.speed.write_bytes_per_s, 2048);
  const DiskSpeed again = measure_and_keep_disk_speed(cache_, MiB);
  EXPECT_NE(again.read_bytes_per_s, 4096);
  EXPECT_EQ(kept_disk_speed(cache_, MiB).speed.read_bytes_per_s, again.read_bytes_per_s);
  EXPECT_NE(read_small_file(kept_facts_path()).find("disk 0 read 1 write 1"), std::string::npos);
}

TEST_F(KeptFacts, ADamagedFileIsMeasuredAnew) {
  write("disk read read read\n\0\xff garbage without an end");
  EXPECT_TRUE(kept_disk_speed(cache_, MiB).is_measured);
  write("disk " + std::string(100'000, '9') + " read 1e999 write nan\n");
  EXPECT_TRUE(kept_disk_speed(cache_, MiB).is_measured);
}

TEST_F(KeptFacts, WithoutAPlaceToKeepItEveryRunTakesTheSame) {
  ::setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  const KeptDiskSpeed first = kept_disk_speed(cache_, MiB);
  EXPECT_FALSE(first.is_measured);
  EXPECT_EQ(kept_disk_speed(cache_, MiB).speed.read_bytes_per_s, first.speed.read_bytes_per_s);
}

}  // namespace
}  // namespace plimsoll::memory
