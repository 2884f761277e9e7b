// train --shard: ranks that share state, gradients and weights give the bits of one process and hold less; their
// checkpoints go on with any number of ranks. Real processes.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kKinds[] = {"none", "state", "gradients", "weights"};

class Sharding : public ::testing::Test {
 protected:
  // Matrices of 1024 weights and more are shared, biases and the last layer are whole.
  std::string net(int width = 64) const {
    return fmt::format(
        "train mlp --image-size 4 --channels 1 --classes 3 --width {} --batch 8 --data {} --val {} --threads 1 "
        "--progress none",
        width, small.in("train.csv"), small.in("test.csv"));
  }
  Outcome train(const std::string& flags) const {
    const Outcome outcome = run_program(flags);
    EXPECT_EQ(outcome.exit_code, 0) << flags << "\n" << outcome.errors;
    return outcome;
  }
  // Weights and state at the end.
  std::string bits_of(const std::string& flags) const {
    const std::string file = small.in("end.safetensors");
    fs::remove(file);
    train(fmt::format("{} --save {}", flags, file));
    return SmallRun::content(file);
  }

  const SmallRun small;
};

TEST_F(Sharding, HasTheBitsOfOneProcess) {
  for (const std::string& more :
       {std::string("--epochs 2"), std::string("--epochs 1 --optimizer sgd --momentum 0.9 --clip 0.5"),
        std::string("--epochs 1 --optimizer lion --state-bits 16")}) {
    const std::string one = bits_of(fmt::format("{} --shards 4 {}", net(), more));
    ASSERT_GT(one.size(), size_t{4 * 16 * 64});
    for (const char* kind : kKinds)
      for (const int ranks : {2, 4})
        EXPECT_EQ(bits_of(fmt::format("{} --shards 4 {} --ranks {} --shard {}", net(), more, ranks, kind)), one)
            << ranks << " ranks, " << kind << ", " << more;
  }
}

// 43 samples in batches of 10: the last 3 leave five of eight shards empty, and with four ranks one has no sample at
// all. It still gathers weights and sums gradients with the others.
TEST_F(Sharding, HasTheBitsOfOneProcessWhereShardsAreEmpty) {
  std::ifstream table(small.in("train.csv"));
  std::ofstream few(small.in("few.csv"));
  std::string row;
  for (int i = 0; i < 44 && std::getline(table, row); ++i) few << row << "\n";
  few.close();
  const std::string run = fmt::format(
      "train mlp --image-size 4 --channels 1 --classes 3 --width 64 --batch 10 --data {0} --val {0} --threads 1 "
      "--progress none --epochs 2 --shards 8",
      small.in("few.csv"));
  for (const char* more : {"", " --optimizer sgd --momentum 0.9 --clip 0.5"}) {
    const std::string one = bits_of(run + more);
    ASSERT_GT(one.size(), size_t{4 * 16 * 64});
    for (const char* kind : kKinds)
      for (const int ranks : {2, 4, 8})
        EXPECT_EQ(bits_of(fmt::format("{}{} --ranks {} --shard {}", run, more, ranks, kind)), one)
            << ranks << " ranks, " << kind << more;
  }
}

// What a rank holds of f32 with Adam, P weights and N ranks: 16P, 8P + 8P/N, 4P + 12P/N, 16P/N.
TEST_F(Sharding, BytesOfARankFollowWhatIsShared) {
  constexpr double kP = 16 * 1024 + 1024 * 1024 + 1024 * 3 + 2 * 1024 + 3;
  for (const int ranks : {2, 4}) {
    const double n = ranks;
    const double expected[] = {16 * kP, 8 * kP + 8 * kP / n, 4 * kP + 12 * kP / n, 16 * kP / n};
    double measured[4] = {};
    for (size_t kind = 0; kind < 4; ++kind) {
      const Outcome outcome = train(
          fmt::format("{} --steps 2 --json --memory 512MiB --ranks {} --shard {}", net(1024), ranks, kKinds[kind]));
      const nlohmann::json held = outcome.event("plan")["ranks"];
      EXPECT_EQ(held["sharding"], kKinds[kind]);
      const double bytes =
          held["weight_bytes"].get<double>() + held["gradient_bytes"].get<double>() + held["state_bytes"].get<double>();
      // Slices are rounded up, and tensors below 1024 elements are whole.
      EXPECT_NEAR(bytes, expected[kind], 0.002 * expected[0]) << ranks << " ranks share " << kKinds[kind];
      measured[kind] = outcome.event("end")["measured_peak_bytes"].get<double>();
    }
    // The process holds less by what the formulas say, less what is gathered and received: a matrix, its gradient and a
    // buffer.
    for (size_t kind = 1; kind < 4; ++kind)
      EXPECT_LT(measured[kind], measured[0] - (expected[0] - expected[kind]) + 14 * 1024 * 1024)
          << ranks << " ranks share " << kKinds[kind];
  }
}

// Rows of numbers, as npy has them.
void write_rows(const std::string& path, int rows, int width) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, width);
  header.resize(117, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size()) << '\0' << header;
  for (int i = 0; i < rows * width; ++i) {
    const float number = static_cast<float>(i % 17) / 17;
    file.write(reinterpret_cast<const char*>(&number), sizeof number);
  }
}

// Eight layers of 1024 x 1024: 16P is 134 MB. A rank of four holds a quarter, one gathered layer and its gradient.
TEST_F(Sharding, TrainsOnFourRanksWhatOneCanNotHold) {
  write_rows(small.in("x.npy"), 16, 1024);
  const std::string deep = fmt::format(
      "train dense-chain --layers 8 --width 1024 --batch 8 --steps 2 --train-x {0} --train-y {0} --threads 1 "
      "--progress "
      "none --memory 80MiB ",
      small.in("x.npy"));
  const Outcome alone = run_program(deep + "--no-remedies");
  EXPECT_EQ(alone.exit_code, 3) << alone.errors;
  const Outcome whole = run_program(deep + "--ranks 4");
  EXPECT_EQ(whole.exit_code, 3) << whole.errors;
  EXPECT_THAT(whole.errors, HasSubstr("\ntry --shard weights, which fits on every rank: state needs a line of"));
  train(deep + "--ranks 4 --shard weights");
  const Outcome automatic = train(deep + "--ranks 4 --shard auto");
  EXPECT_THAT(automatic.output, HasSubstr("ranks   4 share weights · each holds weights 8.0"));
  EXPECT_THAT(automatic.output, HasSubstr("none needs a line of"));
}

TEST_F(Sharding, AutoTakesTheFastestThatFits) {
  const Outcome outcome = train(net() + " --steps 1 --ranks 2 --shard auto --json");
  const nlohmann::json ranks = outcome.event("plan")["ranks"];
  for (const char* kind : kKinds) EXPECT_THAT(ranks["sharding_reason"].get<std::string>(), HasSubstr(kind));
}

TEST_F(Sharding, RefusesStateThatCanNotBeCut) {
  const auto refusal = [&](const std::string& more) {
    const Outcome outcome = run_program(net() + " --ranks 2 --shard state " + more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    return outcome.errors;
  };
  EXPECT_THAT(refusal("--optimizer adafactor"), HasSubstr("the state of adafactor belongs to whole rows"));
  EXPECT_THAT(refusal("--state-bits 8"), HasSubstr("optimiser state of 8 bits"));
}

TEST_F(Sharding, CheckpointsOfAllRanksGoOnWithAnyNumber) {
  const std::string one = bits_of(net() + " --shards 4 --epochs 2");
  const auto run = small.in("run");
  for (const auto& [from, kind] : {std::pair(1, "none"), {2, "none"}, {4, "state"}, {4, "weights"}})
    for (const auto& [to, then] : {std::pair(1, "none"), {2, "weights"}, {4, "gradients"}}) {
      fs::remove_all(run);
      train(fmt::format("{} --shards 4 --epochs 1 --ranks {} --shard {} --run {}", net(), from, kind, run));
      EXPECT_EQ(bits_of(fmt::format("train --run {} --resume --progress none --epochs 2 --ranks {} --shard {}", run, to,
                                    then)),
                one)
          << from << " ranks shared " << kind << ", " << to << " share " << then;
    }
}

TEST_F(Sharding, ACheckpointWithoutAPartIsPassedOver) {
  train(fmt::format("{} --shards 4 --epochs 2 --ranks 4 --shard weights --run {}", net(), small.in("run")));
  const std::vector<std::string> all = small.checkpoints("run");
  ASSERT_EQ(all.size(), size_t{2});
  for (int part = 1; part <= 4; ++part) {
    EXPECT_TRUE(fs::exists(fmt::format("{}/weights-{}-of-4.safetensors", all[1], part)));
    EXPECT_TRUE(fs::exists(fmt::format("{}/optimiser-{}-of-4.safetensors", all[1], part)));
  }
  // The parts together make an ordinary weights file.
  const Outcome saved = run_program(fmt::format("save --run {} -o {}", small.in("run"), small.in("model")));
  EXPECT_EQ(saved.exit_code, 0) << saved.errors;
  fs::remove(all[1] + "/weights-3-of-4.safetensors");
  const Outcome resumed = train(small.resume("run", "--epochs 3 --ranks 2 --shard state"));
  EXPECT_THAT(resumed.errors, HasSubstr("is passed over"));
  EXPECT_THAT(resumed.output, HasSubstr("step-8"));
}

}  // namespace
}  // namespace plimsoll::testing
