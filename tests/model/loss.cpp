#include <plimsoll/model.h>

#include <cmath>
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

constexpr int64_t kSamples = 3, kClasses = 4;
const std::vector<float> kOutputs{0.5F, -1.2F, 2.0F, 0.1F, 1.5F, 0.3F, -0.7F, 0.9F, -2.0F, 0.4F, 0.6F, 1.1F};
// Probabilities, each row sums to one.
const std::vector<float> kShares{0.1F, 0.2F, 0.6F, 0.1F, 0.7F, 0.1F, 0.1F, 0.1F, 0.05F, 0.15F, 0.2F, 0.6F};
const std::vector<int64_t> kLabels{2, 0, 3};
const std::vector<float> kWeights{1, 0.25F, 3};

using Row = std::vector<double>;
Row row(const std::vector<float>& of, int64_t sample) {
  return {of.begin() + sample * kClasses, of.begin() + (sample + 1) * kClasses};
}

// The loss of a graph, weighed or not.
double value_of(const Loss& loss, bool weighs, bool by_class = false) {
  Graph graph;
  const Tensor output = graph.placeholder<float>("output", {Dim::batch(), kClasses});
  const Tensor target = by_class ? graph.placeholder<int64_t>("target", {Dim::batch(), 1})
                                 : graph.placeholder<float>("target", {Dim::batch(), kClasses});
  const Tensor weights = graph.placeholder<float>("weights", {Dim::batch()});
  MemoryLine line;
  Session session(graph, line);
  Step step = session.step({.fetch = {loss.mean(output, target, weighs ? weights : Tensor())}, .batch = kSamples});
  const Feed wanted = by_class ? Feed(target, kLabels) : Feed(target, kShares);
  return static_cast<double>(step({Feed(output, kOutputs), wanted, Feed(weights, kWeights)})[0].item<float>());
}

// A loss of one's own: by sample, what its formula says.
struct Formula {
  std::string name;
  std::function<double(const Row& output, const Row& target)> of;
};

double mean(const Row& x, const Row& y, const std::function<double(double, double)>& of) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += of(x[i], y[i]);
  return sum / static_cast<double>(x.size());
}

double log_sum(const Row& x) {
  double sum = 0;
  for (const double number : x) sum += std::exp(number);
  return std::log(sum);
}

double cross(const Row& x, const Row& y, double smoothing) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (y[i] * (1 - smoothing) + smoothing / kClasses) * (log_sum(x) - x[i]);
  return sum;
}

double dot(const Row& x, const Row& y) {
  return static_cast<double>(x.size()) * mean(x, y, [](double a, double b) { return a * b; });
}

const std::vector<Formula>& formulas() {
  static const std::vector<Formula> kFormulas{
      {"cross_entropy", [](const Row& x, const Row& y) { return cross(x, y, 0); }},
      {"binary_cross_entropy",
       [](const Row& x, const Row& y) {
         return mean(x, y, [](double a, double b) { return std::log1p(std::exp(-a)) + (1 - b) * a; });
       }},
      {"mse",
       [](const Row& x, const Row& y) { return mean(x, y, [](double a, double b) { return (a - b) * (a - b); }); }},
      {"mae",
       [](const Row& x, const Row& y) { return mean(x, y, [](double a, double b) { return std::abs(a - b); }); }},
      {"huber",
       [](const Row& x, const Row& y) {
         return mean(x, y, [](double a, double b) {
           const double e = std::abs(a - b);
           return e <= 1 ? e * e / 2 : e - 0.5;
         });
       }},
      {"log_cosh",
       [](const Row& x, const Row& y) {
         return mean(x, y, [](double a, double b) { return std::log(std::cosh(a - b)); });
       }},
      {"hinge", [](const Row& x,
                   const Row& y) { return mean(x, y, [](double a, double b) { return std::max(0.0, 1 - a * b); }); }},
      {"squared_hinge",
       [](const Row& x, const Row& y) {
         return mean(x, y, [](double a, double b) { return std::pow(std::max(0.0, 1 - a * b), 2); });
       }},
      {"kl_divergence",
       [](const Row& x, const Row& y) {
         return kClasses * mean(x, y, [](double a, double b) { return b * std::log(b / std::clamp(a, 1e-7, 1.0)); });
       }},
      {"cosine_similarity", [](const Row& x, const Row& y) { return -dot(x, y) / std::sqrt(dot(x, x) * dot(y, y)); }},
  };
  return kFormulas;
}

TEST(Loss, IsWhatItsFormulaSays) {
  for (const Formula& formula : formulas()) {
    double sum = 0, weighed = 0;
    for (int64_t i = 0; i < kSamples; ++i) {
      const double one = formula.of(row(kOutputs, i), row(kShares, i));
      sum += one / kSamples;
      // Divided by the number of samples, as Keras does, not by the sum of the weights.
      weighed += one * static_cast<double>(kWeights[static_cast<size_t>(i)]) / kSamples;
    }
    EXPECT_NEAR(value_of(formula.name, false), sum, 1e-5) << formula.name;
    EXPECT_NEAR(value_of(formula.name, true), weighed, 1e-5) << formula.name;
  }
}

TEST(Loss, TakesClassNumbersInAnyWholeType) {
  double sum = 0, weighed = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const Row x = row(kOutputs, i);
    const double one = log_sum(x) - x[static_cast<size_t>(kLabels[static_cast<size_t>(i)])];
    sum += one / kSamples;
    weighed += one * static_cast<double>(kWeights[static_cast<size_t>(i)]) / kSamples;
  }
  EXPECT_NEAR(value_of("sparse_categorical_crossentropy", false, true), sum, 1e-5);
  EXPECT_NEAR(value_of("sparse_cross_entropy", true, true), weighed, 1e-5);
}

TEST(Loss, SmoothsLabels) {
  double sum = 0;
  for (int64_t i = 0; i < kSamples; ++i) sum += cross(row(kOutputs, i), row(kShares, i), 0.1) / kSamples;
  EXPECT_NEAR(value_of(Loss::cross_entropy(0.1), false), sum, 1e-5);
  EXPECT_GT(std::abs(value_of("cross_entropy", false) - sum), 1e-3);
}

TEST(Loss, OfOnesOwnIsAFunctionOfTensors) {
  const auto own = [](Tensor output, Tensor target) { return abs(output - target); };
  EXPECT_NEAR(value_of(own, false), value_of("mae", false), 1e-6);
  EXPECT_NEAR(value_of(own, true), value_of("mae", true), 1e-6);
  const Loss scalar = [](Tensor output, Tensor target) { return reduce_mean(abs(output - target)); };
  EXPECT_NEAR(value_of(scalar, false), value_of("mae", false), 1e-6);
  EXPECT_THAT(error_of([&] { value_of(scalar, true); }), HasSubstr("samples can't be weighed"));
}

TEST(Loss, RefusesWhatDoesNotMatch) {
  EXPECT_THAT(error_of([] { Loss("mes"); }), HasSubstr("there is no loss 'mes'; known are sparse_cross_entropy"));
  EXPECT_THAT(error_of([] { Loss::cross_entropy(1.5); }), HasSubstr("label smoothing of 1.5"));
  EXPECT_THAT(error_of([] { value_of("mse", false, true); }),
              HasSubstr("output is f32[B,4] but the target is i64[B,1]"));
  EXPECT_THAT(error_of([] { value_of("sparse_cross_entropy", false); }), HasSubstr("one class number for each row"));
}

}  // namespace
}  // namespace plimsoll
