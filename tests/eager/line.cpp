// Values that the program holds may together exceed the line.
#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>
#include "eager/nets.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

// A fixed order in which neighbours lie far apart.
std::vector<size_t> jumbled(size_t count) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i * 29 % count;
  return order;
}

TEST(EagerLine, HeldValuesMayExceedItManyTimes) {
  MemoryLine line(16 * MiB);
  Eager eager(line);
  const int64_t elements = 2 * MiB / 4 - 4096;
  const Tensor base = full({elements}, 1);
  std::vector<Tensor> held;
  for (int i = 0; i < 64; ++i) held.push_back(base * static_cast<double>(i + 1));
  for (const size_t i : jumbled(held.size())) {
    const std::vector<float> numbers = held[i].to_vector<float>();
    ASSERT_EQ(numbers.front(), static_cast<float>(i + 1));
    ASSERT_EQ(numbers.back(), static_cast<float>(i + 1));
  }
  EXPECT_LE(line.peak(), line.limit());
  EXPECT_GT(eager.facts().dropped, 32);
  EXPECT_GT(eager.facts().recomputed, 32);
  EXPECT_EQ(eager.facts().spilled, 0);
}

TEST(EagerLine, ValuesOfAChainComeBack) {
  MemoryLine line(16 * MiB);
  Eager eager(line);
  std::vector<Tensor> held{normal({2 * MiB / 4 - 4096})};
  std::vector<float> firsts{held[0][0].item<float>()};
  for (int i = 1; i < 24; ++i) {
    held.push_back(held.back() * 0.5 + 1);
    firsts.push_back(held.back()[0].item<float>());
  }
  for (const size_t i : jumbled(held.size())) EXPECT_EQ(held[i][0].item<float>(), firsts[i]);
  EXPECT_LE(line.peak(), line.limit());
}

TEST(EagerLine, GivenNumbersAreSpilledWhereAFolderIsGiven) {
  MemoryLine line(16 * MiB);
  Eager eager(line, {.scratch_folder = testing::TempDir()});
  const int64_t elements = 2 * MiB / 4 - 4096;
  std::vector<float> numbers(static_cast<size_t>(elements));
  std::vector<Tensor> held;
  for (int i = 0; i < 32; ++i) {
    std::fill(numbers.begin(), numbers.end(), static_cast<float>(i));
    held.push_back(tensor(numbers, {elements}));
  }
  for (const size_t i : jumbled(held.size())) ASSERT_EQ(held[i][elements - 1].item<float>(), static_cast<float>(i));
  EXPECT_LE(line.peak(), line.limit());
  EXPECT_GT(eager.facts().spilled, 20);
}

TEST(EagerLine, WithoutAFolderGivenNumbersAreRefusedWithTheirHolders) {
  MemoryLine line(16 * MiB);
  Eager eager(line);
  const int64_t elements = 3 * MiB / 4;
  const std::vector<float> numbers(static_cast<size_t>(elements), 1);
  std::vector<Tensor> held;
  try {
    for (int i = 0; i < 8; ++i) held.push_back(tensor(numbers, {elements}));
    FAIL() << "24 MiB of numbers fit 16 MiB";
  } catch (const DoesNotFit& e) {
    EXPECT_THAT(e.what(), HasSubstr("the largest eager values"));
    EXPECT_THAT(e.what(), HasSubstr("line.cpp:"));
    EXPECT_GT(e.refusal().need, line.limit());
  }
  EXPECT_EQ(held[0][0].item<float>(), 1) << "what there was is still there";
}

TEST(EagerLine, AnOperatorThatAloneDoesNotFitIsNamed) {
  MemoryLine line(8 * MiB);
  Eager eager(line);
  const Tensor x = full({1024, 1024}, 1);
  try {
    static_cast<void>(reduce_sum(matmul(x, x)).item<float>());
    FAIL() << "three values of 4 MiB fit 8 MiB";
  } catch (const DoesNotFit& e) {
    EXPECT_THAT(e.what(), HasSubstr("matmul"));
    EXPECT_GT(e.refusal().smallest_line, line.limit());
    MemoryLine larger(e.refusal().smallest_line);
    Eager again(larger);
    const Tensor y = full({1024, 1024}, 1);
    EXPECT_FLOAT_EQ(reduce_sum(matmul(y, y)).item<float>(), 1024.0F * 1024 * 1024);
  }
}

// A value can still be recomputed when a variable changes that it does not depend on.
TEST(EagerLine, AnUpdateOfSomethingElseKeepsNothingInMemory) {
  MemoryLine line(16 * MiB);
  Eager eager(line);
  const int64_t elements = 2 * MiB / 4 - 4096;
  const Tensor w = eager.variable("w", {16}, Init::constant(1));
  const Tensor base = full({elements}, 1);
  std::vector<Tensor> held;
  for (int i = 0; i < 24; ++i) {
    held.push_back(base * static_cast<double>(i + 1));
    w.assign_add(ones({16}));
    eager.run();  // one piece computes the value and changes the variable
  }
  for (const size_t i : jumbled(held.size())) ASSERT_EQ(held[i][7].item<float>(), static_cast<float>(i + 1));
  EXPECT_LE(line.peak(), line.limit());
}

TEST(EagerLine, AValueIsNeverMadeFromWhatWasAssignedSince) {
  MemoryLine line(16 * MiB);
  Eager eager(line, {.scratch_folder = testing::TempDir()});
  const int64_t elements = 2 * MiB / 4 - 4096;
  const Tensor w = eager.variable("w", {elements}, Init::constant(1));
  std::vector<Tensor> held;
  for (int i = 0; i < 24; ++i) {
    held.push_back(w * 2);
    if (i % 3 == 0) static_cast<void>(held.back()[0].item<float>());
    w.assign_add(full({elements}, 1));
  }
  for (const size_t i : jumbled(held.size())) ASSERT_EQ(held[i][7].item<float>(), 2 * static_cast<float>(i + 1)) << i;
  EXPECT_LE(line.peak(), line.limit());
}

struct Trained {
  std::vector<float> losses;
  Bytes peak = 0;
};

Trained train_net(Bytes limit, const std::function<Tensor(Tensor, bool)>& net, const Dims& input, int classes) {
  MemoryLine line(limit);
  Eager eager(line);
  Trained result;
  const Optimiser adam = Optimiser::adam(1e-3);
  std::vector<int32_t> labels(static_cast<size_t>(input[0]));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i) % classes;
  const Tensor y = tensor(labels, {input[0]});
  const Tensor x = normal(input);
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const Tensor loss = sparse_cross_entropy(net(x, true), y);
    const std::vector<Tensor> weights = eager.variables();
    adam.apply(tape.gradient(loss, weights), weights);
    result.losses.push_back(loss.item<float>());
  }
  result.peak = line.peak();
  return result;
}

TEST(EagerLine, AResidualNetTrainsInAThirdWithTheSameBits) {
  const Dims input{16, 3, 32, 32};
  const Trained free = train_net(
      4 * GiB, [](Tensor x, bool training) { return eager::residual_net(x, training); }, input, 10);
  const Trained third = train_net(
      free.peak / 3, [](Tensor x, bool training) { return eager::residual_net(x, training); }, input, 10);
  EXPECT_EQ(free.losses, third.losses);
  EXPECT_LE(third.peak, free.peak / 3);
}

TEST(EagerLine, ATransformerTrainsInAThirdWithTheSameBits) {
  const Dims input{8, 128, 64};
  const Trained free = train_net(
      4 * GiB, [](Tensor x, bool) { return eager::transformer(x); }, input, 10);
  const Trained third = train_net(
      free.peak / 3, [](Tensor x, bool) { return eager::transformer(x); }, input, 10);
  EXPECT_EQ(free.losses, third.losses);
  EXPECT_LE(third.peak, free.peak / 3);
}

TEST(EagerLine, ManyShapesLeaveMemoryFlat) {
  MemoryLine line(128 * MiB);
  Eager eager(line, {.plan_cache_bytes = MiB});
  const Tensor w = eager.variable("w", {32, 32}, Init::normal(0, 0.1));
  Bytes after_some = 0;
  for (int64_t i = 1; i <= 500; ++i) {
    const Tensor x = full({i, 32}, 1.0 / 32);
    const float sum = reduce_sum(matmul(x, w)).item<float>();
    ASSERT_NEAR(sum, static_cast<float>(i) * reduce_sum(w).item<float>() / 32, 1e-2 * static_cast<double>(i));
    if (i == 250) after_some = line.used();
  }
  EXPECT_LE(line.used(), after_some + 2 * MiB);
  EXPECT_LT(eager.facts().cached_plans, 200);
  EXPECT_GE(eager.facts().plans, 500);
  EXPECT_GT(eager.facts().planning_ms, 0);
}

}  // namespace
}  // namespace plimsoll
