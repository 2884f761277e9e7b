// train --batch-norm synchronised: ranks normalise with the statistics of the whole batch, as one process does.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

class SynchronisedRanks : public ::testing::Test {
 protected:
  static constexpr int kSamples = 14;

  // Samples of different brightness: the statistics of a part of a batch are not those of the whole.
  SynchronisedRanks() {
    write("x.npy", "|u1", fmt::format("({}, 3, 32, 32)", kSamples), [](std::ofstream& file) {
      for (int i = 0; i < kSamples * 3 * 32 * 32; ++i)
        file.put(static_cast<char>(20 * (i / (3 * 32 * 32) % 8) + i * (i % 97) % 90));
    });
    write("y.npy", "|u1", fmt::format("({},)", kSamples), [](std::ofstream& file) {
      for (int i = 0; i < kSamples; ++i) file.put(static_cast<char>(i % 3));
    });
  }

  template <class Fill>
  void write(const std::string& name, const std::string& type, const std::string& shape, const Fill& fill) {
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
    header.resize(117, ' ');
    header += '\n';
    std::ofstream file(small.in(name), std::ios::binary);
    file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size()) << '\0' << header;
    fill(file);
  }

  Outcome train(const std::string& more) const {
    return run_program(
        fmt::format("train resnet18 --image-size 32 --classes 3 --batch 8 --optimizer sgd --lr 0.001 --threads 1 "
                    "--progress none --json --train-x {0}x.npy --train-y {0}y.npy --test-x {0}x.npy --test-y {0}y.npy "
                    "{1}",
                    small.in(""), more));
  }
  // Of the second step, after the update of the first.
  double loss_of(const std::string& more) const {
    const Outcome outcome = train("--steps 2 " + more);
    EXPECT_EQ(outcome.exit_code, 0) << more << "\n" << outcome.errors;
    return outcome.event("end").value("loss", 0.0);
  }

  const SmallRun small;
};

// The second batch has 6 samples: ranks with 2 and with 1.
TEST_F(SynchronisedRanks, NormaliseTheWholeBatch) {
  const double alone = loss_of("");
  EXPECT_EQ(loss_of("--batch-norm synchronised"), alone) << "one process has the whole batch";
  for (const char* more :
       {"--ranks 2", "--ranks 4", "--ranks 4 --shards 4", "--ranks 2 --shard gradients", "--ranks 2 --shard weights"}) {
    EXPECT_NEAR(loss_of(std::string("--batch-norm synchronised ") + more), alone, 1e-3 * alone) << more;
  }
  EXPECT_GT(std::abs(loss_of("--ranks 4 --batch-norm own") - alone), 1e-2 * alone)
      << "the comparison sees statistics of parts";
}

TEST_F(SynchronisedRanks, ArePlannedAndMeasured) {
  const std::string model = "resnet18 --image-size 32 --classes 3 --batch 8 --batch-norm synchronised ";
  const Outcome plan = run_program("plan " + model + "--ranks 2 --network 10Gb/s --json");
  EXPECT_EQ(plan.exit_code, 0) << plan.errors;
  const Outcome profile = run_program("profile " + model + "--ranks 2 --threads 1 --steps 2");
  EXPECT_EQ(profile.exit_code, 0) << profile.errors;
  EXPECT_THAT(profile.output, HasSubstr("combine_moments"));
}

TEST_F(SynchronisedRanks, RefuseWhatTakesPartsOneAfterAnother) {
  const auto refusal = [&](const std::string& more) {
    const Outcome outcome = train("--batch-norm synchronised " + more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    return outcome.errors;
  };
  EXPECT_THAT(refusal("--ranks 2 --shards 4"), HasSubstr("needs a rank for each shard"));
  EXPECT_THAT(refusal("--ranks 2 --split batch_norm"), HasSubstr("ask for one of the two"));
  EXPECT_THAT(refusal("--pipeline head"), HasSubstr("batch norm in a pipeline has the statistics of a micro-batch"));
}

}  // namespace
}  // namespace plimsoll::testing
