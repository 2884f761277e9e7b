// train --pipeline --run: stages write a checkpoint together, and any cut of the model goes on from it.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rank_run.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kTwo = "--micro-batches 4 --pipeline fc2";
constexpr const char* kThree = "--micro-batches 4 --pipeline fc2,head";
constexpr const char* kOne = "--micro-batches 4";

class PipelineRun : public ::testing::Test {
 protected:
  void train(const std::string& run, const std::string& more) const {
    const Outcome outcome = run_program(small.command(run, more));
    EXPECT_EQ(outcome.exit_code, 0) << more << "\n" << outcome.errors;
  }
  // Weights and the optimiser's state of the newest checkpoint, as one process writes them.
  std::string weights_of(const std::string& run) const {
    const std::string file = small.in(run + ".safetensors");
    const Outcome outcome =
        run_program(small.command(run, fmt::format("--resume --epochs 2 --steps 16 {} --save {}", kOne, file)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return SmallRun::content(file);
  }

  const SmallRun small;
};

TEST_F(PipelineRun, HasTheBitsOfOneProcess) {
  train("one", fmt::format("--epochs 2 {}", kOne));
  const std::string one = weights_of("one");
  ASSERT_FALSE(one.empty());
  for (const char* stages : {kTwo, kThree}) {
    const std::string run = stages == kTwo ? "two" : "three";
    train(run, fmt::format("--epochs 2 {}", stages));
    const std::string newest = small.checkpoints(run).back();
    EXPECT_TRUE(fs::exists(newest + fmt::format("/weights-2-of-{}.safetensors", stages == kTwo ? 2 : 3)));
    EXPECT_TRUE(weights_of(run) == one) << stages;
  }
}

// Stopped in the middle of an epoch, then resumed with the same cut, with another, and by one process.
TEST_F(PipelineRun, GoesOnWithAnotherCut) {
  train("whole", fmt::format("--epochs 2 {}", kOne));
  const std::string whole = weights_of("whole");
  int number = 0;
  for (const auto& [first, second] : {std::pair{kTwo, kTwo}, {kTwo, kThree}, {kThree, kOne}, {kOne, kTwo}}) {
    const std::string run = fmt::format("run{}", ++number);
    train(run, fmt::format("--epochs 2 --steps 11 {}", first));
    EXPECT_EQ(small.newest_step(run), 11);
    const Outcome outcome = run_program(small.command(run, fmt::format("--resume --epochs 2 --steps 16 {}", second)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_TRUE(weights_of(run) == whole) << first << ", then " << second;
  }
  const Outcome other = run_program(small.command("run1", "--resume --epochs 3 --micro-batches 2 --pipeline fc2"));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("its number of micro-batches is 4, here it is 2"));
}

TEST_F(PipelineRun, StartsAgainWhenARankIsKilled) {
  train("whole", fmt::format("--epochs 2 {}", kOne));
  const std::string whole = weights_of("whole");
  RankRun run(small.command("killed", fmt::format("--epochs 2 {} --checkpoint-every 2 --restarts 2", kTwo)),
              small.in("killed"));
  ASSERT_TRUE(RankRun::wait_until([&] { return small.newest_step("killed") >= 2; }));
  run.send(1, SIGKILL);
  EXPECT_EQ(run.wait().exit_code, 0) << run.wait().errors;
  EXPECT_TRUE(weights_of("killed") == whole);
}

TEST_F(PipelineRun, PassesOverACheckpointOfWhichAPartIsDamaged) {
  train("run", fmt::format("--epochs 2 {} --checkpoint-every 4", kTwo));
  const auto all = small.checkpoints("run");
  SmallRun::flip_byte(all.back() + "/optimiser-2-of-2.safetensors", 200);
  const Outcome outcome = run_program(small.command("run", fmt::format("--resume --epochs 2 {}", kTwo)));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("is passed over"));
}

// A model that is made of a run has the weights of all stages.
TEST_F(PipelineRun, MakesAModel) {
  train("run", fmt::format("--epochs 1 {}", kTwo));
  const Outcome saved = run_program(fmt::format("save --run {} --output {}", small.in("run"), small.in("model")));
  EXPECT_EQ(saved.exit_code, 0) << saved.errors;
  const Outcome evaluated = run_program(fmt::format("eval {} --data {}", small.in("model"), small.in("test.csv")));
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.errors;
}

}  // namespace
}  // namespace plimsoll::testing
