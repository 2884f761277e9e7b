// Random numbers as operators: their distributions, and that they follow seed, step, node and sample alone.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <omp.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include <plimsoll/random.h>
#include "ops/evaluate.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<float> run(const Graph& graph, Tensor of, int64_t batch = 1, StepState state = {1, 0, 0}) {
  Evaluator evaluator(graph, batch, 0, state.first_sample);
  evaluator.state = state;
  evaluator.run();
  return evaluator.floats(of.id());
}

double mean_of(const std::vector<float>& numbers, double power = 1, double around = 0) {
  double sum = 0;
  for (const float number : numbers) sum += std::pow(static_cast<double>(number) - around, power);
  return sum / static_cast<double>(numbers.size());
}

constexpr int64_t kMany = 1 << 20;
constexpr double kError = 0.005;  // five standard errors of a mean of kMany numbers of deviation 1

TEST(Random, NormalNumbersHaveTheMomentsAndTailsOfTheDistribution) {
  Graph graph;
  const std::vector<float> numbers = run(graph, random_normal(graph, {kMany}, 3, 2));
  EXPECT_NEAR(mean_of(numbers), 3, 2 * kError);
  EXPECT_NEAR(mean_of(numbers, 2, 3), 4, 8 * kError);
  EXPECT_NEAR(mean_of(numbers, 3, 3) / 8, 0, 5 * kError);
  EXPECT_NEAR(mean_of(numbers, 4, 3) / 16, 3, 12 * kError);
  const auto share_within = [&](double deviations) {
    return static_cast<double>(
               std::ranges::count_if(numbers, [&](float number) { return std::abs(number - 3) < 2 * deviations; })) /
           static_cast<double>(kMany);
  };
  EXPECT_NEAR(share_within(0.1), 0.07966, 0.002);
  EXPECT_NEAR(share_within(1), 0.68269, 0.0025);
  EXPECT_NEAR(share_within(3), 0.99730, 0.0003);
  // Neighbours are independent of each other.
  double product = 0;
  for (size_t i = 1; i < numbers.size(); ++i) product += (numbers[i] - 3.0) * (numbers[i - 1] - 3.0) / 4;
  EXPECT_NEAR(product / static_cast<double>(kMany), 0, kError);
  EXPECT_TRUE(std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); }));
}

TEST(Random, UniformNumbersAreEvenAndBelowTheEnd) {
  Graph graph;
  const std::vector<float> numbers = run(graph, random_uniform(graph, {kMany}, -1, 3));
  EXPECT_NEAR(mean_of(numbers), 1, 2 * kError);
  EXPECT_NEAR(mean_of(numbers, 2, 1), 16.0 / 12, 4 * kError);
  const auto [low, high] = std::ranges::minmax(numbers);
  EXPECT_GE(low, -1);
  EXPECT_LT(high, 3);
  EXPECT_LT(low, -0.999);
  EXPECT_GT(high, 2.999);
  // A range of a single number, and one so narrow that rounding could reach its end.
  EXPECT_EQ(run(graph, random_uniform(graph, {5}, 7, 7)), std::vector<float>(5, 7.0F));
  for (const float number : run(graph, random_uniform(graph, {1000}, 1, 1 + 0x1.0p-22)))
    EXPECT_LT(number, 1 + 0x1.0p-22F);
}

TEST(Random, WholeNumbersAreEvenlyDrawnFromAHalfOpenRange) {
  for (const DType dtype : {DType::I32, DType::I64}) {
    Graph graph;
    const std::vector<float> numbers = run(graph, random_uniform(graph, {kMany}, -3, 4, dtype));
    std::vector<int64_t> counts(7, 0);
    for (const float number : numbers) {
      ASSERT_GE(number, -3);
      ASSERT_LT(number, 4);
      ++counts[static_cast<size_t>(number + 3)];
    }
    for (const int64_t count : counts)
      EXPECT_NEAR(static_cast<double>(count) / static_cast<double>(kMany), 1 / 7.0, 0.002);
  }
  Graph graph;
  const Tensor like = graph.placeholder<float>("like", {3});
  EXPECT_EQ(random_integers(like, 0, 10, DType::I64).dtype(), DType::I64);
  EXPECT_EQ(random_integers(like, 0, 10, DType::I32).shape(), Shape{3});
}

TEST(Random, BernoulliIsOneWithItsProbability) {
  Graph graph;
  const std::vector<float> numbers = run(graph, bernoulli(graph, {kMany}, 0.3));
  EXPECT_NEAR(mean_of(numbers), 0.3, kError / 2);
  for (const float number : numbers) ASSERT_TRUE(number == 0 || number == 1);
  EXPECT_EQ(run(graph, bernoulli(graph, {1000}, 0)), std::vector<float>(1000, 0.0F));
  EXPECT_EQ(run(graph, bernoulli(graph, {1000}, 1)), std::vector<float>(1000, 1.0F));
}

TEST(Random, CategoriesFollowTheSoftmaxOfTheirLogits) {
  Graph graph;
  constexpr int64_t kRows = 200'000;
  const Tensor logits = graph.placeholder<float>("logits", {Dim::batch(), 4});
  const Tensor drawn = categorical(logits);
  Evaluator evaluator(graph, kRows);
  std::vector<float> rows;
  for (int64_t i = 0; i < kRows; ++i) rows.insert(rows.end(), {0.0F, std::log(3.0F), -INFINITY, std::log(6.0F)});
  evaluator.set_floats(logits.id(), rows);
  evaluator.run();
  std::vector<double> shares(4, 0);
  for (const float number : evaluator.floats(drawn.id())) shares[static_cast<size_t>(number)] += 1.0 / kRows;
  EXPECT_NEAR(shares[0], 0.1, 0.005);
  EXPECT_NEAR(shares[1], 0.3, 0.006);
  EXPECT_EQ(shares[2], 0);
  EXPECT_NEAR(shares[3], 0.6, 0.006);
}

TEST(Random, NumbersFollowSeedStepNodeAndSample) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 500, 3});
  const std::vector<Tensor> draws{
      random_normal(graph, {Dim::batch(), 500}),  random_normal(graph, {Dim::batch(), 500}),
      random_uniform(graph, {Dim::batch(), 500}), random_uniform(graph, {Dim::batch(), 500}, 0, 1e6, DType::I32),
      bernoulli(graph, {Dim::batch(), 500}),      categorical(x)};
  const auto numbers = [&](Tensor of, uint64_t seed, int64_t step, int64_t first, int64_t batch) {
    Evaluator evaluator(graph, batch, 8, first);
    evaluator.state = {seed, step, first};
    evaluator.set_floats(x.id(), std::vector<float>(static_cast<size_t>(batch) * 1500, 1.0F));
    evaluator.run();
    return evaluator.floats(of.id());
  };
  for (const Tensor& draw : draws) {
    SCOPED_TRACE(std::string(draw.name()));
    const std::vector<float> whole = numbers(draw, 1, 0, 0, 8);
    EXPECT_EQ(whole, numbers(draw, 1, 0, 0, 8));
    EXPECT_NE(whole, numbers(draw, 2, 0, 0, 8));
    EXPECT_NE(whole, numbers(draw, 1, 1, 0, 8));
    const std::vector<float> tail = numbers(draw, 1, 0, 5, 3);
    EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 2500)) << "samples 5 to 7";
  }
  EXPECT_NE(numbers(draws[0], 1, 0, 0, 8), numbers(draws[1], 1, 0, 0, 8));
}

TEST(Random, NumbersAreTheSameForAnyNumberOfThreads) {
  Graph graph;
  const std::vector<Tensor> draws{random_normal(graph, {100'003}), random_uniform(graph, {100'003}, -5, 5, DType::I64),
                                  bernoulli(graph, {100'003})};
  const int threads = omp_get_max_threads();
  for (const Tensor& draw : draws) {
    omp_set_num_threads(1);
    const std::vector<float> alone = run(graph, draw);
    omp_set_num_threads(3);
    EXPECT_EQ(run(graph, draw), alone);
  }
  omp_set_num_threads(threads);
}

TEST(Random, RefusesWhatMakesNoSense) {
  Graph graph;
  const auto refuses = [](const auto& call, const char* text) {
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(text)));
  };
  refuses([&] { random_normal(graph, {3}, 0, -1); }, "deviation");
  refuses([&] { random_normal(graph, {3}, NAN); }, "mean");
  refuses([&] { random_uniform(graph, {3}, 2, 1); }, "no numbers from 2 to 1");
  refuses([&] { random_uniform(graph, {3}, 0, 0, DType::I32); }, "no whole numbers");
  refuses([&] { random_uniform(graph, {3}, 0.5, 3, DType::I64); }, "no whole numbers");
  refuses([&] { random_uniform(graph, {3}, 0, 1e10, DType::I32); }, "no whole numbers");
  refuses([&] { random_uniform(graph, {3}, 0, 9, DType::U8); }, "can't be drawn");
  refuses([&] { bernoulli(graph, {3}, 1.5); }, "p");
  refuses([&] { random_normal(Tensor()); }, "unset");
  refuses([&] { categorical(graph.scalar(1)); }, "no dimension of classes");
}

}  // namespace
}  // namespace plimsoll::testing
