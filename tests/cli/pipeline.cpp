// train --pipeline: layers on real processes give the bits of one, each within its line, and fail together.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rank_run.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

class Pipeline : public ::testing::Test {
 protected:
  std::string net() const {
    return fmt::format("mlp --image-size 4 --channels 1 --classes 3 --width 8 --batch 8 --data {} --val {}",
                       small.in("train.csv"), small.in("test.csv"));
  }
  Outcome train(const std::string& more) const {
    return run_program(fmt::format("train {} --threads 1 --progress none {}", net(), more));
  }
  // Weights and the optimiser's state at the end, as bytes of a file.
  std::string weights_of(const std::string& name, const std::string& more) {
    const std::string file = small.in(name + ".safetensors");
    last_ = train(fmt::format("--epochs 2 --json --save {} {}", file, more));
    EXPECT_EQ(last_.exit_code, 0) << more << "\n" << last_.errors;
    return SmallRun::content(file);
  }

  const SmallRun small;
  Outcome last_;
};

TEST_F(Pipeline, HasTheBitsOfOneProcess) {
  for (const std::string more : {"", "--optimizer sgd --momentum 0.9 --clip 0.5"}) {
    const std::string one = weights_of("one", more + " --micro-batches 4");
    const auto metrics = [&] { return std::pair(last_.event("end")["loss"], last_.event("end")["test_loss"]); };
    const auto of_one = metrics();
    ASSERT_FALSE(one.empty());
    EXPECT_EQ(weights_of("two", more + " --micro-batches 4 --pipeline fc2"), one) << more;
    EXPECT_EQ(metrics(), of_one) << "the first rank is told what the last one computed";
    EXPECT_EQ(weights_of("three", more + " --micro-batches 4 --pipeline fc2,head --ranks 3"), one) << more;
    EXPECT_NE(weights_of("other", more + " --micro-batches 2"), one) << "the comparison sees the last bits";
  }
}

TEST_F(Pipeline, GoesOnFromAFileOfOneProcess) {
  const std::string one = weights_of("one", "--micro-batches 4");
  ASSERT_FALSE(one.empty());
  const std::string start = "--weights " + small.in("one.safetensors") + " --micro-batches 4";
  const std::string further = weights_of("further", start);
  EXPECT_NE(further, one);
  EXPECT_EQ(weights_of("several", start + " --pipeline fc2"), further);
}

TEST_F(Pipeline, ThatCanNotBeIsRefused) {
  const auto refusal = [&](const std::string& more) {
    const Outcome outcome = train(more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    return outcome.errors;
  };
  EXPECT_EQ(refusal("--pipeline fc9"),
            "plimsoll: model 'mlp' has no layer 'fc9' to begin a stage with; its layers are fc1, fc2, head\n")
      << "once for all ranks";
  EXPECT_EQ(refusal("--pipeline fc2 --ranks 3"),
            "plimsoll: a pipeline of 2 stages needs 2 ranks, one for each, and there are 3\n");
  EXPECT_THAT(refusal("--pipeline fc2 --micro-batches 3"),
              HasSubstr("can't be cut into 3 equal micro-batches; try a "));
  EXPECT_THAT(refusal("--pipeline fc2 --shards 2"), HasSubstr("micro-batches, not shards"));
  EXPECT_THAT(refusal("--pipeline fc2 --accumulate 2"), HasSubstr("can't be combined with a pipeline"));
  EXPECT_THAT(refusal("--pipeline fc2 --policy mixed_float16"), HasSubstr("a pipeline can't scale its loss"));
  EXPECT_THAT(refusal("--pipeline fc2 --shard state"), HasSubstr("ranks of a pipeline share nothing"));
}

TEST_F(Pipeline, NamesTheRankThatDoesNotFit) {
  const Outcome outcome = train("--pipeline fc2 --memory 256MiB,20MiB");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("plimsoll: rank 0: fits: the plan takes "));
  EXPECT_THAT(outcome.errors, HasSubstr("\nrank 1: does not fit"));
}

TEST_F(Pipeline, IsPlannedWithoutRanks) {
  const Outcome outcome = run_program("plan mlp --pipeline fc2 --micro-batches 4 --memory 256MiB");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("rank 0 of 2"));
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 of 2"));
  const Outcome refused = run_program("plan mlp --pipeline fc2 --memory 256MiB,20MiB");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.errors, HasSubstr("rank 1: does not fit"));
}

TEST_F(Pipeline, ARankThatIsKilledEndsAll) {
  RankRun run(fmt::format("train {} --threads 1 --progress none --pipeline fc2 --epochs 1000000 --save {}", net(),
                          small.in("marked")),
              small.in("marked"));
  ASSERT_TRUE(RankRun::wait_until([&] { return run.ranks().size() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  run.send(1, SIGKILL);
  const Outcome& outcome = run.wait();
  EXPECT_EQ(outcome.exit_code, 7) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("rank 1"));
  EXPECT_TRUE(RankRun::wait_until([&] { return run.ranks().empty(); })) << "a rank is left";
}

}  // namespace
}  // namespace plimsoll::testing
