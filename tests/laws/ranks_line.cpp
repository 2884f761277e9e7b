// Every rank keeps its line in a control group of its own, MPI included; and lines may differ.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/cgroup.h"
#include "support/program.h"
#include "support/sanitizer.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

TEST(RanksLine, IsKeptByEveryRankInAControlGroupOfItsOwn) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const SmallRun small;
  const LimitedOutcome probe = run_limited({"/bin/true"}, 64 * MiB);
  if (!probe.run) GTEST_SKIP() << probe.reason;
  const auto words = [&](Bytes line) {
    return fmt::format(
        "train mlp --image-size 4 --channels 1 --classes 3 --width 512 --batch 64 --threads 1 --epochs 20 "
        "--progress none --data {} --val {} --memory {}",
        small.in("train.csv"), small.in("test.csv"), line);
  };
  const Bytes small_line = 64 * MiB, large_line = 96 * MiB;
  const Outcome outcome = run_program(
      words(large_line),
      fmt::format(
          "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --quiet --oversubscribe -n 1 {} {} {} {} "
          ": -n 1 {} {}",
          PLIMSOLL_LIMITED, small_line, PLIMSOLL_BINARY, words(small_line), PLIMSOLL_LIMITED, large_line));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
}

}  // namespace
}  // namespace plimsoll::testing
