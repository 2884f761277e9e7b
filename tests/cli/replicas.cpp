// train --replicas: threads of one process under one line, with the bits of ranks.
#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ReplicaRuns : public ::testing::Test {
 protected:
  std::string net() const {
    return fmt::format("mlp --image-size 4 --channels 1 --classes 3 --width 8 --batch 8 --data {} --val {}",
                       small.in("train.csv"), small.in("test.csv"));
  }
  Outcome train(const std::string& more) const {
    return run_program(fmt::format("train {} --threads 2 --progress none {}", net(), more));
  }
  std::string weights_of(const std::string& more) {
    const std::string file = small.in("weights.safetensors");
    last_ = train(fmt::format("--epochs 2 --json --save {} {}", file, more));
    EXPECT_EQ(last_.exit_code, 0) << more << "\n" << last_.errors;
    return SmallRun::content(file);
  }
  std::string refusal(const std::string& more, int exit_code = 2) const {
    const Outcome outcome = train(more);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.errors;
    return outcome.errors;
  }

  const SmallRun small;
  Outcome last_;
};

TEST_F(ReplicaRuns, HaveTheBitsOfRanks) {
  for (const char* more : {"--shards 4", "--shards 4 --batch 10 --clip 0.5", "--shards 4 --shard weights"}) {
    const std::string ranks = weights_of(fmt::format("{} --ranks 2", more));
    const auto metrics = [&] { return std::pair(last_.event("end")["loss"], last_.event("end")["test_loss"]); };
    const auto of_ranks = metrics();
    ASSERT_FALSE(ranks.empty());
    for (const int replicas : {2, 4}) {
      EXPECT_TRUE(weights_of(fmt::format("{} --replicas {}", more, replicas)) == ranks) << more << " " << replicas;
      EXPECT_EQ(metrics(), of_ranks);
    }
  }
  EXPECT_TRUE(weights_of("--replicas 2") == weights_of("--ranks 2")) << "one shard for each";
}

TEST_F(ReplicaRuns, SpeakWithOneVoiceAndPlanTogether) {
  const Outcome outcome = train("--replicas 2 --memory 256MiB");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output.find("plan    "), outcome.output.rfind("plan    ")) << "the first one speaks";
  EXPECT_THAT(outcome.output, HasSubstr("\nreplicas 2 under this line: "));
  const Outcome plan = run_program("plan mlp --batch 64 --replicas 4 --memory 256MiB");
  EXPECT_EQ(plan.exit_code, 0) << plan.errors;
  EXPECT_THAT(plan.output, HasSubstr("ranks   4 share nothing"));
}

// The smallest line of the refusal works, and the peak of the whole process stays below it.
TEST_F(ReplicaRuns, AreRefusedWithALineThatWorks) {
  const std::string errors = refusal("--replicas 2 --memory 16MiB", 3);
  EXPECT_THAT(errors, StartsWith("plimsoll: does not fit: needs ")) << "once for all";
  EXPECT_THAT(errors, HasSubstr("must fit its part of what the line leaves for all"));
  const std::string words = "smallest line that works: ";
  const size_t at = errors.find(words);
  ASSERT_NE(at, std::string::npos) << errors;
  const std::string line = errors.substr(at + words.size(), errors.find('\n', at) - at - words.size());
  const Outcome outcome = train(fmt::format("--replicas 2 --json --memory {}", line));
  EXPECT_EQ(outcome.exit_code, 0) << line << "\n" << outcome.errors;
  const nlohmann::json end = outcome.event("end");
  EXPECT_LE(end["measured_peak_bytes"], end["line_bytes"]) << end.dump();
  EXPECT_THAT(run_program("plan mlp --batch 64 --replicas 4 --memory 16MiB").errors, HasSubstr("does not fit"));
}

TEST_F(ReplicaRuns, GoOnFromCheckpointsOfOthers) {
  const std::string whole = weights_of("--shards 4");
  const auto run = [&](const std::string& more) {
    const Outcome outcome = run_program(small.command("run", "--shards 4 " + more));
    EXPECT_EQ(outcome.exit_code, 0) << more << "\n" << outcome.errors;
  };
  run("--epochs 1 --replicas 4");
  run("--epochs 2 --replicas 2 --resume --save " + small.in("further.safetensors"));
  EXPECT_TRUE(SmallRun::content(small.in("further.safetensors")) == whole);
}

TEST_F(ReplicaRuns, EndWithTheErrorOfOne) {
  std::ifstream table(small.in("train.csv"));
  std::ofstream bad(small.in("bad.csv"));
  std::string line;
  for (int row = -1; std::getline(table, line); ++row)
    bad << (row == 15 ? "nan" + line.substr(line.find(',')) : line) << "\n";
  bad.close();
  const std::string errors = refusal(fmt::format("--replicas 4 --no-shuffle --data {}", small.in("bad.csv")), 4);
  EXPECT_THAT(errors, StartsWith("plimsoll: replica 3: "));
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
}

TEST_F(ReplicaRuns, RefuseWhatRanksHave) {
  EXPECT_THAT(refusal("--replicas 2 --ranks 2"), HasSubstr("give one of --replicas and --ranks"));
  EXPECT_THAT(refusal("--replicas 2 --pipeline fc2"), HasSubstr("give one of --replicas and --ranks"));
  EXPECT_THAT(refusal("--replicas 2 --shard auto"), HasSubstr("say what they share"));
  EXPECT_THAT(refusal("--replicas 2 --auto-batch"), HasSubstr("give --batch"));
  EXPECT_THAT(refusal("--replicas 2 --memory 64MiB,64MiB"), HasSubstr("give --memory one size"));
  EXPECT_THAT(refusal("--replicas 3 --shards 4"), HasSubstr("4 shards can't be shared"));
}

TEST_F(ReplicaRuns, StopAfterTheSameStepWhenInterrupted) {
  const Outcome outcome =
      run_program(small.command("stopped", "--epochs 100000 --replicas 2"), "timeout --preserve-status --signal=INT 2");
  EXPECT_EQ(outcome.exit_code, 75) << outcome.errors;
  EXPECT_FALSE(small.checkpoints("stopped").empty());
}

}  // namespace
}  // namespace plimsoll::testing
