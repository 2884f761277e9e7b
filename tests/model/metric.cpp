#include <plimsoll/model.h>

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/ops.h>
#include <plimsoll/session.h>
#include "support/error_of.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

// The metric over all samples, fed in batches of these sizes.
template <class Target>
double value_of(const Metric& metric, int64_t width, const std::vector<float>& predictions,
                const std::vector<Target>& targets, const std::vector<int64_t>& batches) {
  Graph graph;
  const Tensor prediction = graph.placeholder<float>("prediction", {Dim::batch(), width});
  const auto count = static_cast<int64_t>(predictions.size()) / width;
  const auto target_width = static_cast<int64_t>(targets.size()) / count;
  const Tensor target = graph.placeholder<Target>("target", {Dim::batch(), target_width});
  MemoryLine line;
  Session session(graph, line);
  Step step = session.step({.fetch = metric.sums(prediction, target), .batch = batches[0]});
  std::vector<double> sums;
  int64_t at = 0;
  for (const int64_t batch : batches) {
    const std::span<const float> x(predictions.data() + at * width, static_cast<size_t>(batch * width));
    const std::span<const Target> y(targets.data() + at * target_width, static_cast<size_t>(batch * target_width));
    size_t i = 0;
    for (const View& view : step({Feed(prediction, x), Feed(target, y)}))
      for (const float number : view.floats()) {
        if (i == sums.size()) sums.push_back(0);
        sums[i++] += static_cast<double>(number);
      }
    at += batch;
  }
  EXPECT_EQ(at, count);
  return metric.value(sums, static_cast<double>(count));
}

const std::vector<float> kLogits{3, 1, 2, 0, 5, 4, 1, 2, 3, 2, 1, 0, 0, 1, 9};
const std::vector<int32_t> kClasses{0, 2, 0, 1, 2};

TEST(Metric, CountsRightAnswersOverBatchesOfAnySize) {
  const std::vector<std::vector<int64_t>> ways{{5}, {2, 2, 1}, {1, 1, 1, 1, 1}};
  for (const auto& batches : ways) {
    EXPECT_DOUBLE_EQ(value_of("accuracy", 3, kLogits, kClasses, batches), 2.0 / 5);
    EXPECT_DOUBLE_EQ(value_of("top_2", 3, kLogits, kClasses, batches), 4.0 / 5);
    EXPECT_DOUBLE_EQ(value_of(Metric::top_k(3), 3, kLogits, kClasses, batches), 1);
  }
}

TEST(Metric, AccuracyTakesProbabilitiesAndSingleNumbersToo) {
  const std::vector<float> one_hot{1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1};
  EXPECT_DOUBLE_EQ(value_of("accuracy", 3, kLogits, one_hot, {3, 2}), 2.0 / 5);
  EXPECT_DOUBLE_EQ(value_of("accuracy", 1, {0.2F, 0.9F, 0.6F, 0.4F}, std::vector<uint8_t>{0, 1, 0, 1}, {3, 1}), 0.5);
}

const std::vector<float> kScores{0.1F, 0.4F, 0.35F, 0.8F, 0.7F, 0.2F};
const std::vector<int32_t> kTruth{0, 0, 1, 1, 1, 0};

TEST(Metric, PrecisionAndRecallAreOfTheWholeEpoch) {
  EXPECT_DOUBLE_EQ(value_of(Metric::precision(0.3), 1, kScores, kTruth, {4, 2}), 3.0 / 4);
  EXPECT_DOUBLE_EQ(value_of("precision", 1, kScores, kTruth, {4, 2}), 1);
  EXPECT_DOUBLE_EQ(value_of("recall", 1, kScores, kTruth, {4, 2}), 2.0 / 3);
  EXPECT_DOUBLE_EQ(value_of("precision", 1, {0.1F, 0.2F}, std::vector<int32_t>{0, 1}, {2}), 0) << "none is positive";
}

// The curve has a corner at each score: of 9 pairs of a positive and a negative, 8 are in the right order.
TEST(Metric, AucIsTheAreaUnderTheCurve) {
  EXPECT_NEAR(value_of("auc", 1, kScores, kTruth, {4, 2}), 8.0 / 9, 1e-6);
  EXPECT_NEAR(value_of("auc", 1, kScores, kTruth, {1, 1, 1, 1, 1, 1}), 8.0 / 9, 1e-6);
}

TEST(Metric, MeansAreOfSamples) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6}, y{1, 1, 1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(value_of("mse", 2, x, y, {2, 1}), (0 + 1 + 4 + 9 + 16 + 25) / 6.0);
  EXPECT_DOUBLE_EQ(value_of("mae", 2, x, y, {2, 1}), 15 / 6.0);
  EXPECT_DOUBLE_EQ(value_of("mean", 2, x, y, {2, 1}), 3.5);
  const Metric own = Metric::own("largest", [](Tensor p, Tensor) { return reduce_max(p, {1}); });
  EXPECT_DOUBLE_EQ(value_of(own, 2, x, y, {1, 2}), 4);
}

TEST(Metric, RefusesWhatMakesNoSense) {
  EXPECT_THAT(error_of([] { Metric("acuracy"); }), HasSubstr("there is no metric 'acuracy'; known are accuracy"));
  EXPECT_THAT(error_of([] { Metric("top_many"); }), HasSubstr("there is no metric 'top_many'"));
  EXPECT_THAT(error_of([] { Metric::top_k(0); }), HasSubstr("top_k: 0 makes no sense"));
  EXPECT_THAT(error_of([] { Metric::auc(1); }), HasSubstr("1 thresholds make no sense"));
  EXPECT_THAT(error_of([] { value_of("mse", 3, kLogits, kClasses, {5}); }),
              HasSubstr("metric 'mse': the output is f32[B,3] but the target is i32[B,1]"));
  const Metric scalar = Metric::own("scalar", [](Tensor p, Tensor) { return reduce_mean(p); });
  EXPECT_THAT(error_of([&] { value_of(scalar, 3, kLogits, kClasses, {5}); }), HasSubstr("one number for each sample"));
}

}  // namespace
}  // namespace plimsoll
