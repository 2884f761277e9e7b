#include <signal.h>
#include <sys/mman.h>

#include <cstring>

#include <gtest/gtest.h>

#include "support/cgroup.h"
#include "support/sanitizer.h"

namespace plimsoll::memory {
namespace {

int touch_64_mib() {
  void* const memory = ::mmap(nullptr, 64 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 9;
  std::memset(memory, 1, 64 * MiB);
  return 7;
}

TEST(LimitedRun, KillsTheChildThatTakesMore) {
  const auto outcome = testing::run_limited(touch_64_mib, 32 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->signal, SIGKILL);
  EXPECT_TRUE(outcome.run->oom_killed);
  EXPECT_LE(outcome.run->peak_bytes.value_or(0), 32 * MiB);
}

TEST(LimitedRun, LetsTheChildThatFitsFinish) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const auto outcome = testing::run_limited(touch_64_mib, 128 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->exit_code, 7);
  EXPECT_FALSE(outcome.run->oom_killed);
  if (outcome.run->peak_bytes) {
    EXPECT_GE(*outcome.run->peak_bytes, 64 * MiB);
    EXPECT_LE(*outcome.run->peak_bytes, 128 * MiB);
  }
}

TEST(LimitedRun, RunsACommand) {
  const auto outcome = testing::run_limited(std::vector<std::string>{"sh", "-c", "exit 5"}, 64 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->exit_code, 5);
}

}  // namespace
}  // namespace plimsoll::memory
