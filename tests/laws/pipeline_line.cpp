// Every rank of a pipeline keeps its line in a control group of its own, MPI included, also where it spills to a disk.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/cgroup.h"
#include "support/disk_folder.h"
#include "support/program.h"
#include "support/sanitizer.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

class PipelineLine : public ::testing::Test {
 protected:
  void SetUp() override {
    PLIMSOLL_SKIP_UNDER_SANITIZER();
    const LimitedOutcome probe = run_limited({"/bin/true"}, 64 * MiB);
    if (!probe.run) GTEST_SKIP() << probe.reason;
  }

  std::string words(const std::string& more) const {
    return fmt::format(
        "train mlp --image-size 4 --channels 1 --classes 3 --width 2048 --batch 64 --threads 1 --epochs 5 --pipeline "
        "fc2 --micro-batches 4 --progress none --data {} --val {} {}",
        small.in("train.csv"), small.in("test.csv"), more);
  }
  // The first rank has fc1, the second fc2 with most of the weights. Each in a group that is as large as its line.
  Outcome run(Bytes first, Bytes second, const std::string& more) const {
    return run_program(words(fmt::format("--memory {} {}", second, more)),
                       fmt::format("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --quiet "
                                   "--oversubscribe -n 1 {} {} {} {} : -n 1 {} {}",
                                   PLIMSOLL_LIMITED, first, PLIMSOLL_BINARY,
                                   words(fmt::format("--memory {} {}", first, more)), PLIMSOLL_LIMITED, second));
  }
  std::string in(const std::string& name) const { return small.in(name); }

  const SmallRun small;
};

TEST_F(PipelineLine, IsKeptByEveryRankInAControlGroupOfItsOwn) {
  const Outcome outcome = run(56 * MiB, 128 * MiB, "");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
}

// A line that the second stage can't keep in memory alone: what it spills has the same bits.
TEST_F(PipelineLine, IsKeptByAStageThatSpills) {
  const Bytes line = 88 * MiB;
  EXPECT_EQ(run(56 * MiB, line, "").exit_code, 3) << "does not fit without a disk";
  const DiskFolder scratch;
  const std::string folder = scratch;
  const Outcome spilled = run(56 * MiB, line, fmt::format("--scratch {} --save {}", folder, in("spilled.safetensors")));
  ASSERT_EQ(spilled.exit_code, 0) << spilled.errors << spilled.output;
  const Outcome whole = run(56 * MiB, 160 * MiB, fmt::format("--save {}", in("whole.safetensors")));
  ASSERT_EQ(whole.exit_code, 0) << whole.errors << whole.output;
  EXPECT_FALSE(SmallRun::content(in("whole.safetensors")).empty());
  EXPECT_TRUE(SmallRun::content(in("spilled.safetensors")) == SmallRun::content(in("whole.safetensors")));
}

}  // namespace
}  // namespace plimsoll::testing
