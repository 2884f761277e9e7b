// train --shard together with what reads all gradients or all weights: scaled losses, clipping, best weights.
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

class SharedTraining : public ::testing::Test {
 protected:
  std::string weights_of(const std::string& words) {
    const std::string file = small.in("weights.safetensors");
    last_ = run_program(fmt::format("train {} --threads 1 --progress none --save {}", words, file));
    EXPECT_EQ(last_.exit_code, 0) << words << "\n" << last_.errors;
    return SmallRun::content(file);
  }
  // One process, then ranks and replicas that share more and more.
  void expect_same_bits(const std::string& words) {
    const std::string one = weights_of(words);
    ASSERT_FALSE(one.empty());
    for (const char* kind : {"none", "state", "gradients", "weights"})
      for (const char* together : {"--ranks 2", "--ranks 4", "--replicas 2"})
        EXPECT_TRUE(weights_of(fmt::format("{} --shard {} {}", words, kind, together)) == one) << kind << together;
  }
  std::string net() const {
    return fmt::format("mlp --image-size 4 --channels 1 --classes 3 --width 64 --batch 8 --shards 4 --data {} --val {}",
                       small.in("train.csv"), small.in("test.csv"));
  }

  const SmallRun small;
  Outcome last_;
};

TEST_F(SharedTraining, HasTheSameBitsWithAScaledLoss) {
  expect_same_bits(net() + " --epochs 2 --policy mixed_float16");
}

TEST_F(SharedTraining, HasTheSameBitsWithTheBestWeightsRestored) {
  const std::string words = net() + " --epochs 8 --lr 0.1 --early-stopping 2";
  weights_of(words);
  ASSERT_THAT(last_.output, HasSubstr("did not improve in 2 epochs")) << "there is something to restore";
  expect_same_bits(words);
}

// The layouts of convolutions' gradients depend on what is shared; batch norms have up to 1280 channels.
TEST_F(SharedTraining, HasTheSameBitsWithClippedConvolutions) {
  const auto write = [&](const std::string& name, const std::string& shape, int count, int most) {
    std::string header = fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': {}, }}", shape);
    header.resize(117, ' ');
    header += '\n';
    std::ofstream file(small.in(name), std::ios::binary);
    file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size()) << '\0' << header;
    for (int i = 0; i < count; ++i) file.put(static_cast<char>(i * (i % 97) % most));
  };
  write("x.npy", "(16, 3, 32, 32)", 16 * 3 * 32 * 32, 251);
  write("y.npy", "(16,)", 16, 3);
  const std::string words = fmt::format(
      "mobilenet_v2 --image-size 32 --classes 3 --batch 8 --shards 4 --steps 2 --clip 0.5 --train-x {0}x.npy --train-y "
      "{0}y.npy --test-x {0}x.npy --test-y {0}y.npy",
      small.in(""));
  expect_same_bits(words);
  EXPECT_FALSE(weights_of(words) == weights_of(words + " --clip 5000")) << "clipping changes something";
}

}  // namespace
}  // namespace plimsoll::testing
