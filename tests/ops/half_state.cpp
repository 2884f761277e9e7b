// State of optimisers in 16 bits: means stay right although each step is less than a unit, and bits don't depend on the
// place of an element.
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/elementwise.h"
#include "kernels/update.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

struct AdamState {
  std::vector<float> w;
  Contents m, v;
};

Contents narrow(const std::vector<float>& numbers, DType dtype) {
  Contents contents(numbers.size() * static_cast<size_t>(size_of(dtype)));
  store_of(dtype)(numbers.data(), contents.data(), numbers.size());
  return contents;
}

// Steps of Adam on one variable; the gradient of element i at step t is gradient(i, t).
template <class Slope>
AdamState run_adam(const AdamState& start, DType state, int steps, const Slope& gradient) {
  const auto count = static_cast<int64_t>(start.w.size());
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, {count}, Init::zeros());
  const Tensor m = graph.variable("m", state, {count}, Init::zeros());
  const Tensor v = graph.variable("v", state, {count}, Init::zeros());
  const Tensor g = graph.placeholder("g", DType::F32, {count});
  const Tensor rate = graph.placeholder("rate", DType::F32, {});
  const Tensor step = graph.placeholder("step", DType::I64, {});
  kernels::add_update(*ops::find_op("adam"), {w, m, v}, {g, {}}, rate, step, {}, {}, {});
  AdamState at = start;
  for (int64_t t = 1; t <= steps; ++t) {
    Evaluator evaluator(graph, 1);
    std::vector<float> slopes(start.w.size());
    for (size_t i = 0; i < slopes.size(); ++i) slopes[i] = gradient(i, t);
    evaluator.set_floats(w.id(), at.w);
    evaluator.set(m.id(), at.m);
    evaluator.set(v.id(), at.v);
    evaluator.set_floats(g.id(), slopes);
    evaluator.set_floats(rate.id(), {1e-3F});
    Contents counter(sizeof t);
    std::memcpy(counter.data(), &t, sizeof t);
    evaluator.set(step.id(), counter);
    evaluator.run();
    at = {evaluator.floats(w.id()), evaluator.contents(m.id()), evaluator.contents(v.id())};
  }
  return at;
}

double mean(const std::vector<float>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

TEST(HalfState, ASlowMeanDoesNotStall) {
  // A step of v is about 0.0002 here, a tenth of what rounding to the nearest would need to move at all.
  constexpr size_t kCount = 4099;
  constexpr int kSteps = 300;
  const auto start = [](DType dtype) {
    return AdamState{std::vector<float>(kCount, 0.5F), narrow(std::vector<float>(kCount, 0.0F), dtype),
                     narrow(std::vector<float>(kCount, 1.0F), dtype)};
  };
  const auto gradient = [](size_t i, int64_t t) {
    return 0.9F + 0.01F * static_cast<float>(unit_real(mix_bits(i, static_cast<uint64_t>(t))));
  };
  const AdamState wide = run_adam(start(DType::F32), DType::F32, kSteps, gradient);
  const AdamState half = run_adam(start(DType::BF16), DType::BF16, kSteps, gradient);
  const double expected = mean(to_floats(wide.v, DType::F32));
  EXPECT_LT(expected, 0.96);
  EXPECT_NEAR(mean(to_floats(half.v, DType::BF16)), expected, 2e-3);
  EXPECT_NEAR(mean(to_floats(half.m, DType::BF16)), mean(to_floats(wide.m, DType::F32)), 2e-3);
  EXPECT_NEAR(mean(half.w), mean(wide.w), 1e-3);
}

TEST(HalfState, EqualElementsThatNeverGetAGradientDecayInTheMean) {
  // The same numbers everywhere, at every step: only the step itself tells them apart.
  constexpr int kSteps = 700;
  const std::vector<float> ones(16, 1.0F);
  const AdamState start{ones, narrow(std::vector<float>(16, 0.0F), DType::BF16), narrow(ones, DType::BF16)};
  const AdamState half = run_adam(start, DType::BF16, kSteps, [](size_t, int64_t) { return 0.0F; });
  EXPECT_NEAR(mean(to_floats(half.v, DType::BF16)), std::pow(0.999, kSteps), 0.12);
}

TEST(HalfState, BitsDoNotDependOnThePlace) {
  constexpr size_t kCount = 1037;  // whole vectors and a rest
  const auto turned = [](size_t i) { return (i + 411) % kCount; };
  const auto number = [](uint64_t key, size_t i) { return static_cast<float>(unit_real(mix_bits(key, i))); };
  const auto run = [&](bool turn) {
    std::vector<float> w(kCount), m(kCount), v(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      const size_t from = turn ? turned(i) : i;
      w[i] = number(1, from);
      m[i] = number(2, from);
      v[i] = number(3, from);
    }
    return run_adam({w, narrow(m, DType::BF16), narrow(v, DType::BF16)}, DType::BF16, 3,
                    [&](size_t i, int64_t t) { return number(static_cast<uint64_t>(10 + t), turn ? turned(i) : i); });
  };
  const AdamState straight = run(false), other = run(true);
  const auto v = to_floats(straight.v, DType::BF16), v_turned = to_floats(other.v, DType::BF16);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(other.w[i], straight.w[turned(i)]);
    ASSERT_EQ(v_turned[i], v[turned(i)]);
  }
}

TEST(HalfState, ZeroStaysZeroAndNanStaysNan) {
  const std::vector<float> zeros(9, 0.0F);
  const AdamState start{zeros, narrow(zeros, DType::BF16), narrow(zeros, DType::BF16)};
  const AdamState after =
      run_adam(start, DType::BF16, 3, [](size_t i, int64_t) { return i == 4 ? std::nanf("") : 0.0F; });
  const auto v = to_floats(after.v, DType::BF16);
  for (size_t i = 0; i < v.size(); ++i) {
    if (i == 4)
      EXPECT_TRUE(std::isnan(v[i]));
    else
      EXPECT_EQ(v[i], 0.0F);
  }
}

}  // namespace
}  // namespace plimsoll::testing
