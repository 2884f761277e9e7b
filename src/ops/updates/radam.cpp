// radam: adam whose step is rectified while the mean of squares is of few gradients. With r = 2 / (1 - beta2) - 1 and
// r_t = r - 2 t beta2^t / (1 - beta2^t): where r_t > 5,
//   w -= rate / (1 - beta1^t) m sqrt((r_t - 4)(r_t - 2) r / ((r - 4)(r - 2) r_t)) sqrt(1 - beta2^t) / (sqrt(v) +
//   epsilon)
// and w -= rate / (1 - beta1^t) m before.
#include <cmath>

#include "kernels/elementwise_update.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/radam.cpp"
#include <hwy/foreach_target.h>

#include "kernels/elementwise_update-inl.h"

#ifndef PLIMSOLL_OPS_UPDATES_RADAM_ONCE
#define PLIMSOLL_OPS_UPDATES_RADAM_ONCE
namespace plimsoll::ops {
namespace {
struct RadamNumbers {
  float alpha, rest1, rest2, epsilon;
  bool is_rectified;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

struct RadamFormula {
  RadamNumbers n;
  HWY_INLINE Floats operator()(FloatTag d, Floats g, Floats, Floats& m, Floats& v, Floats&) const {
    m = hn::MulAdd(hn::Sub(g, m), hn::Set(d, n.rest1), m);
    v = hn::MulAdd(hn::MulSub(g, g, v), hn::Set(d, n.rest2), v);
    const Floats step = hn::Mul(hn::Set(d, n.alpha), m);
    return n.is_rectified ? hn::Div(step, hn::Add(hn::Sqrt(v), hn::Set(d, n.epsilon))) : step;
  }
};

void radam_floats(const UpdateStep& s, const RadamNumbers& n, const UpdateRun<float>& at) {
  update_elements<2>(s, at, RadamFormula{n});
}
void radam_halves(const UpdateStep& s, const RadamNumbers& n, const UpdateRun<uint16_t>& at) {
  update_elements<2>(s, at, RadamFormula{n});
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(radam_floats);
HWY_EXPORT(radam_halves);

struct Run {
  void operator()(const UpdateStep& s, const RadamNumbers& n, const UpdateRun<float>& at) const {
    HWY_DYNAMIC_DISPATCH(radam_floats)(s, n, at);
  }
  void operator()(const UpdateStep& s, const RadamNumbers& n, const UpdateRun<uint16_t>& at) const {
    HWY_DYNAMIC_DISPATCH(radam_halves)(s, n, at);
  }
};

auto numbers_of(const Attrs& attrs) {
  const double beta1 = attrs.f("beta1", 0.9), beta2 = attrs.f("beta2", 0.999);
  const auto epsilon = static_cast<float>(attrs.f("epsilon", 1e-8));
  return [=](const UpdateStep& s) {
    const double power = std::pow(beta2, s.t), most = 2 / (1 - beta2) - 1;
    const double length = most - 2 * s.t * power / (1 - power);
    const bool is_rectified = length > 5;
    double alpha = static_cast<double>(s.rate) / (1 - std::pow(beta1, s.t));
    if (is_rectified)
      alpha *= std::sqrt((1 - power) * (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
    return RadamNumbers{static_cast<float>(alpha), static_cast<float>(1 - beta1), static_cast<float>(1 - beta2),
                        epsilon, is_rectified};
  };
}

Prepared prepare(const Facts& facts) { return prepare_elementwise<2>(facts, numbers_of, Run()); }

std::vector<Sample> samples() { return update_samples("radam", 2, {{"beta2", 0.9}}); }

const Op kRadam{.name = "radam",
                .infer = infer_elementwise<2>,
                .types = kUpdateTypes,
                .prepare = prepare,
                .samples = samples,
                .traits = {.elementwise = true, .updates = 0b111}};

void check(const RuleSettings& settings) {
  settings.expect_below_one("beta1");
  settings.expect_below_one("beta2");
  settings.expect_positive("epsilon");
}

NodeId add(WeightUpdate& u) {
  u.take({"beta1", "beta2", "epsilon"});
  const Tensor m = u.state("m");
  return u.add(kRadam, {u.weight, m, u.state("v")}, true);
}

const OptimiserRule kRule{.name = "radam", .check = check, .add = add};

}  // namespace

OpList radam_ops() { return {&kRadam}; }
const OptimiserRule& radam_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
