// Replicas of one process keep its one line in a control group.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/cgroup.h"
#include "support/sanitizer.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

TEST(ReplicasLine, IsKeptInAControlGroup) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const SmallRun small;
  const Bytes line = 96 * MiB;
  for (const char* replicas : {"2", "4"}) {
    const LimitedOutcome outcome = run_limited({PLIMSOLL_BINARY,
                                                "train",
                                                "mlp",
                                                "--image-size",
                                                "4",
                                                "--channels",
                                                "1",
                                                "--classes",
                                                "3",
                                                "--width",
                                                "512",
                                                "--batch",
                                                "64",
                                                "--threads",
                                                "2",
                                                "--epochs",
                                                "20",
                                                "--progress",
                                                "none",
                                                "--data",
                                                small.in("train.csv"),
                                                "--val",
                                                small.in("test.csv"),
                                                "--memory",
                                                fmt::format("{}", line),
                                                "--replicas",
                                                replicas},
                                               line);
    if (!outcome.run) GTEST_SKIP() << outcome.reason;
    EXPECT_EQ(outcome.run->exit_code, 0) << replicas;
    EXPECT_FALSE(outcome.run->oom_killed) << replicas;
  }
}

}  // namespace
}  // namespace plimsoll::testing
