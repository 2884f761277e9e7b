// The same command gives the same plan in every run, and what is beyond counting is refused at once.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/types.h>
#include "support/cgroup.h"
#include "support/disk_folder.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;

TEST(Stable, PlansAreTheSameInEveryRun) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const testing::DiskFolder folder;
  const std::string before = "env XDG_CACHE_HOME=" + std::string(folder);
  for (const std::string& flags :
       {std::string("lenet --memory 24MiB"), std::string("resnet18 --image-size 32 -b 8 --memory 1GiB"),
        fmt::format("gpt2-small --layers 2 -b 2 --sequence 64 --memory 500MiB --scratch {}", std::string(folder))}) {
    SCOPED_TRACE(flags);
    nlohmann::json first;
    for (int i = 0; i < 4; ++i) {
      const Outcome planned = run_program("plan " + flags + " --json", before);
      ASSERT_EQ(planned.exit_code, 0) << planned.errors;
      const auto plan = nlohmann::json::parse(planned.output);
      if (i == 0) first = plan;
      for (const char* fact : {"planned_peak_bytes", "predicted_step_ns", "arena_bytes", "runtime_bytes"})
        EXPECT_EQ(plan[fact], first[fact]) << fact;
    }
  }
}

// In a few MiB, proven by a control group.
TEST(Stable, WhatIsBeyondCountingIsRefusedAtOnce) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  for (const char* flags : {"mlp -b 1000000000", "mlp --width 1000000000", "dense-chain --layers 99999999999",
                            "mlp -b 9223372036854775807", "gpt2-small --sequence 1000000000"}) {
    SCOPED_TRACE(flags);
    const auto result =
        testing::run_limited({"/bin/sh", "-c",
                              fmt::format("exec timeout 20 {} plan {} --no-remedies --memory 20GiB >/dev/null 2>&1",
                                          PLIMSOLL_BINARY, flags)},
                             64 * MiB);
    if (!result.run) GTEST_SKIP() << result.reason;
    EXPECT_FALSE(result.run->oom_killed);
    EXPECT_THAT(result.run->exit_code, AnyOf(1, 2, 3));
  }
  EXPECT_THAT(run_program("plan dense-chain --layers 99999999999").errors, HasSubstr("layers"));
}

}  // namespace
}  // namespace plimsoll
