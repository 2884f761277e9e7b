// State of adam in 8 bits against adam in 32: means stay right, ratios within a block too, and nothing is divided by
// zero.
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/update.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

// Steps of adam on one variable from zero state; the gradient of element i at step t is gradient(i, t).
class Adam {
 public:
  Adam(int64_t count, bool in_bytes) : count_(static_cast<size_t>(count)) {
    w_ = graph_.variable("w", DType::F32, {count}, Init::zeros());
    g_ = graph_.placeholder("g", DType::F32, {count});
    rate_ = graph_.placeholder("rate", DType::F32, {});
    step_ = graph_.placeholder("step", DType::I64, {});
    const auto state = [&](const char* name, DType dtype, int64_t size) {
      state_.push_back(graph_.variable(name, dtype, {size}, Init::zeros()));
      return state_.back();
    };
    const Tensor m = state("m", in_bytes ? DType::U8 : DType::F32, count);
    const Tensor v = state("v", in_bytes ? DType::U8 : DType::F32, count);
    if (in_bytes) {
      const Tensor m_scale = state("m_scale", DType::F32, ops::blocks_of_bytes(count));
      const Tensor v_scale = state("v_scale", DType::F32, ops::blocks_of_bytes(count));
      ops::adam_in_bytes(w_, {g_, {}}, rate_, step_, m, v, m_scale, v_scale, {}, {});
    } else {
      kernels::add_update(*ops::find_op("adam"), {w_, m, v}, {g_, {}}, rate_, step_, {}, {}, {});
    }
    evaluator_.set_floats(w_.id(), std::vector<float>(count_, 0.0F));
    evaluator_.set_floats(rate_.id(), {1e-3F});
    for (const Tensor& each : state_)
      evaluator_.set(each.id(),
                     Contents(static_cast<size_t>(element_count(each.shape()).fixed() * size_of(each.dtype()))));
  }

  template <class Slope>
  void run(int64_t steps, const Slope& gradient) {
    for (int64_t last = t_ + steps; t_ < last;) {
      ++t_;
      std::vector<float> slopes(count_);
      for (size_t i = 0; i < count_; ++i) slopes[i] = gradient(i, t_);
      Contents counter(sizeof t_);
      std::memcpy(counter.data(), &t_, sizeof t_);
      evaluator_.set_floats(g_.id(), slopes);
      evaluator_.set(step_.id(), counter);
      evaluator_.run();
    }
  }
  std::vector<float> weights() const { return evaluator_.floats(w_.id()); }
  Contents codes(size_t which) const { return evaluator_.contents(state_[which].id()); }

 private:
  size_t count_;
  Graph graph_;
  Tensor w_, g_, rate_, step_;
  std::vector<Tensor> state_;
  Evaluator evaluator_{graph_, 1};
  int64_t t_ = 0;
};

float noise(size_t i, int64_t t) {
  return static_cast<float>(2 * unit_real(mix_bits(i, static_cast<uint64_t>(t))) - 1);
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(apart / size);
}

// Gradients whose sizes within a block lie three powers of ten apart, with noise as large as their mean.
TEST(AdamInBytes, FollowsAdamIn32Bits) {
  constexpr int64_t kCount = 4099;
  const auto gradient = [](size_t i, int64_t t) {
    const auto size = static_cast<float>(std::pow(10.0, -3.0 * static_cast<double>(i % 7) / 6));
    return size * (0.5F + noise(i, t));
  };
  Adam wide(kCount, false), narrow(kCount, true);
  wide.run(400, gradient);
  narrow.run(400, gradient);
  EXPECT_LT(relative_distance(narrow.weights(), wide.weights()), 0.1);
}

// A thousandth of v is far below what 8 bits can tell apart, and yet v must fall.
TEST(AdamInBytes, ASlowMeanDoesNotStall) {
  constexpr int64_t kCount = 512;
  const auto gradient = [](size_t i, int64_t t) {
    const bool is_first_of_block = i % 256 == 0;  // keeps the scale of its block
    return is_first_of_block || t <= 20 ? 1.0F : 0.1F;
  };
  Adam wide(kCount, false), narrow(kCount, true);
  wide.run(2000, gradient);
  narrow.run(2000, gradient);
  EXPECT_LT(relative_distance(narrow.weights(), wide.weights()), 0.1);
}

TEST(AdamInBytes, ZeroStaysZeroAndSmallIsNotZero) {
  Adam narrow(600, true);
  const auto gradient = [](size_t i, int64_t) { return i == 3 ? 0.0F : i == 4 ? 1e-9F : 1.0F; };
  narrow.run(5, gradient);
  EXPECT_EQ(narrow.weights()[3], 0.0F);
  EXPECT_EQ(narrow.codes(0)[3], std::byte{0});
  EXPECT_EQ(narrow.codes(1)[3], std::byte{0});
  EXPECT_NE(narrow.codes(1)[4], std::byte{0}) << "m would be divided by epsilon alone";
  // Gradients are zero from here on: no element may jump.
  const std::vector<float> before = narrow.weights();
  narrow.run(5, [](size_t, int64_t) { return 0.0F; });
  const std::vector<float> after = narrow.weights();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_LT(std::abs(after[i] - before[i]), 0.02F) << i;
}

TEST(AdamInBytes, ABadGradientIsSeen) {
  Adam narrow(600, true);
  narrow.run(2, [](size_t i, int64_t) { return i == 300 ? NAN : 1.0F; });
  EXPECT_TRUE(std::isnan(narrow.weights()[300]));
  EXPECT_FALSE(std::isnan(narrow.weights()[0]));
}

}  // namespace
}  // namespace plimsoll::testing
