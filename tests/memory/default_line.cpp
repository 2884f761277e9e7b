#include "memory/default_line.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll::memory {
namespace {

const std::string k8GiB = "MemTotal:        8388608 kB\nMemFree: 1 kB\n";

TEST(DefaultLine, PhysicalMemoryLessATenth) {
  const DefaultLine line = default_line({.meminfo = k8GiB});
  EXPECT_EQ(line.bytes, 8 * GiB - 8 * GiB / 10);
  EXPECT_EQ(line.reason, "physical memory is 8 GiB, less a reserve of 819.2 MiB");
}

TEST(DefaultLine, TheSmallestWins) {
  MemoryFacts facts{.slurm_mem_per_node = "4096", .meminfo = k8GiB};
  EXPECT_EQ(default_line(facts).bytes, 4 * GiB - 4 * GiB / 10);
  facts.slurm_mem_per_cpu = "1024";
  facts.slurm_cpus_on_node = "2";
  EXPECT_EQ(default_line(facts).bytes, 2 * GiB - 2 * GiB / 10);
  EXPECT_THAT(default_line(facts).reason, ::testing::HasSubstr("SLURM_MEM_PER_CPU"));
  facts.cgroups.push_back({.file = "/a/memory.max", .limit = 512 * MiB});
  EXPECT_EQ(default_line(facts).bytes, 512 * MiB - 64 * MiB);
  EXPECT_EQ(default_line(facts).reason,
            "the control group limit in /a/memory.max is 512 MiB, less a reserve of 64 MiB");
}

TEST(DefaultLine, LeavesHalfOfATinyLimit) {
  EXPECT_EQ(default_line({.cgroups = {{.file = "f", .limit = 64 * MiB}}}).bytes, 32 * MiB);
}

TEST(DefaultLine, TheVariableDecidesAlone) {
  MemoryFacts facts{.plimsoll_memory = "1GiB", .slurm_mem_per_node = "100", .meminfo = k8GiB};
  EXPECT_EQ(default_line(facts).bytes, GiB);
  EXPECT_EQ(default_line(facts).reason, "PLIMSOLL_MEMORY=1GiB");
  facts.plimsoll_memory = "50%";
  EXPECT_EQ(default_line(facts).bytes, 50 * MiB);
}

TEST(DefaultLine, RefusesWhatIsNoNumber) {
  EXPECT_THROW(default_line({.plimsoll_memory = "lots", .meminfo = k8GiB}), Error);
  EXPECT_THROW(default_line({.slurm_mem_per_node = "4G", .meminfo = k8GiB}), Error);
  EXPECT_THROW(default_line({.slurm_mem_per_cpu = "-1", .meminfo = k8GiB}), Error);
  EXPECT_THROW(default_line({}), Error);
}

TEST(DefaultLine, ZeroInSlurmMeansTheWholeNode) {
  EXPECT_EQ(default_line({.slurm_mem_per_node = "0", .meminfo = k8GiB}).bytes, 8 * GiB - 8 * GiB / 10);
}

TEST(DefaultLine, SomethingIsKnownHere) {
  const DefaultLine line = default_line(gather_memory_facts());
  EXPECT_GT(line.bytes, MiB);
  EXPECT_FALSE(line.reason.empty());
}

// A fake /proc and /sys.
class FakeSystem {
 public:
  FakeSystem() : root_(::testing::TempDir() + "plimsoll-fake-" + std::to_string(::getpid())) {}
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

TEST(CgroupMemory, ReadsVersion1FromTheRootDown) {
  const FakeSystem fake;
  fake.file("/proc/self/cgroup", "9:cpu:/x\n4:hugetlb,memory:/a/b\n0::/\n");
  fake.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  fake.file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000000\n");
  fake.file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "2000000\n");
  fake.file("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "5000\n");
  fake.file("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 40\n");
  const auto groups = cgroup_memory(fake.root());
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].limit, 1000000);
  EXPECT_EQ(groups[0].used, 5000);
  EXPECT_EQ(groups[0].page_cache, 340);
  EXPECT_EQ(groups[1].limit, 2000000);
}

TEST(CgroupMemory, ReadsVersion2) {
  const FakeSystem fake;
  fake.file("/proc/self/cgroup", "0::/user.slice/job\n");
  fake.file("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  fake.file("/sys/fs/cgroup/user.slice/job/memory.max", "4096000\n");
  fake.file("/sys/fs/cgroup/user.slice/job/memory.current", "4096\n");
  fake.file("/sys/fs/cgroup/user.slice/job/memory.stat", "anon 3\ninactive_file 7\nactive_file 8\n");
  const auto groups = cgroup_memory(fake.root());
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].limit, 4096000);
  EXPECT_EQ(groups[0].page_cache, 15);
}

TEST(CgroupMemory, FallsBackToTheMountInsideAContainer) {
  const FakeSystem fake;
  fake.file("/proc/self/cgroup", "4:memory:/docker/0123\n");
  fake.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "777000\n");
  const auto groups = cgroup_memory(fake.root());
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].limit, 777000);
}

}  // namespace
}  // namespace plimsoll::memory
