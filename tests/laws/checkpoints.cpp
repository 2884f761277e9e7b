// Checkpoints are written and read inside the line, though it has room for no second copy of the weights.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/sanitizer.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

TEST(Checkpoints, NeedNoSecondCopyOfTheWeights) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const SmallRun small;
  const std::string net = "--width 3000 --optimizer sgd --checkpoint-every 2 --json ";
  const auto smallest = [](const Outcome& refused) {
    EXPECT_EQ(refused.exit_code, 3) << refused.errors;
    return nlohmann::json::parse(refused.output, nullptr, false).value("smallest_line_bytes", int64_t{0});
  };
  // The line of each run is the smallest that works; the process itself says when it holds more (exit code 1).
  const auto expect_tight = [](const Outcome& outcome, int64_t line, int64_t weights) {
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    const nlohmann::json end = outcome.event("end");
    EXPECT_LE(end.value("measured_peak_bytes", int64_t{0}), line);
    EXPECT_LT(line - end.value("planned_peak_bytes", int64_t{0}), weights / 10);
  };
  const int64_t first = smallest(run_program(small.command("refused", net + "--steps 2 --no-remedies --memory 1MiB")));
  const Outcome trained = run_program(small.command("run", fmt::format("{} --steps 2 --memory {}", net, first)));
  ASSERT_EQ(small.newest_step("run"), 2) << trained.errors;
  const auto weights =
      static_cast<int64_t>(std::filesystem::file_size(small.checkpoints("run").back() + "/weights.safetensors"));
  EXPECT_GT(weights, 30'000'000);
  expect_tight(trained, first, weights);

  // Resumed, it needs no larger line.
  expect_tight(run_program(small.resume("run", "--json --steps 4")), first, weights);
  EXPECT_EQ(small.newest_step("run"), 4);
}

// A checkpoint holds the numbers of all epochs that the run remembers, and the process no second copy of them.
TEST(Checkpoints, OfManyEpochsStayInsideTheLine) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const SmallRun small;
  const auto peak = [&](const std::string& run, int64_t epochs) {
    const Outcome outcome = run_program(
        small.command(run, fmt::format("--epochs {} --checkpoint-every 500epochs --no-shuffle --json", epochs)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.event("end").value("measured_peak_bytes", int64_t{0});
  };
  const int64_t few = peak("few", 10), many = peak("many", 2500);
  EXPECT_LT(many - few, 1'500'000) << few << " -> " << many;
}

}  // namespace
}  // namespace plimsoll::testing
