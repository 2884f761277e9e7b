// adamax: m += (g - m)(1 - beta1); u = max(beta2 u, |g|); w -= rate / (1 - beta1^t) m / (u + epsilon).
#include <cmath>

#include "kernels/elementwise_update.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/adamax.cpp"
#include <hwy/foreach_target.h>

#include "kernels/elementwise_update-inl.h"

#ifndef PLIMSOLL_OPS_UPDATES_ADAMAX_ONCE
#define PLIMSOLL_OPS_UPDATES_ADAMAX_ONCE
namespace plimsoll::ops {
namespace {
struct AdamaxNumbers {
  float alpha, rest1, beta2, epsilon;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

struct AdamaxFormula {
  AdamaxNumbers n;
  HWY_INLINE Floats operator()(FloatTag d, Floats g, Floats, Floats& m, Floats& most, Floats&) const {
    m = hn::MulAdd(hn::Sub(g, m), hn::Set(d, n.rest1), m);
    // In this order of arguments a NaN of the gradient stays.
    most = hn::Max(hn::Mul(hn::Set(d, n.beta2), most), hn::Abs(g));
    most = hn::IfThenElse(hn::IsNaN(g), g, most);
    return hn::Div(hn::Mul(hn::Set(d, n.alpha), m), hn::Add(most, hn::Set(d, n.epsilon)));
  }
};

void adamax_floats(const UpdateStep& s, const AdamaxNumbers& n, const UpdateRun<float>& at) {
  update_elements<2>(s, at, AdamaxFormula{n});
}
void adamax_halves(const UpdateStep& s, const AdamaxNumbers& n, const UpdateRun<uint16_t>& at) {
  update_elements<2>(s, at, AdamaxFormula{n});
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(adamax_floats);
HWY_EXPORT(adamax_halves);

struct Run {
  void operator()(const UpdateStep& s, const AdamaxNumbers& n, const UpdateRun<float>& at) const {
    HWY_DYNAMIC_DISPATCH(adamax_floats)(s, n, at);
  }
  void operator()(const UpdateStep& s, const AdamaxNumbers& n, const UpdateRun<uint16_t>& at) const {
    HWY_DYNAMIC_DISPATCH(adamax_halves)(s, n, at);
  }
};

auto numbers_of(const Attrs& attrs) {
  const double beta1 = attrs.f("beta1", 0.9);
  const auto beta2 = static_cast<float>(attrs.f("beta2", 0.999)),
             epsilon = static_cast<float>(attrs.f("epsilon", 1e-7));
  return [=](const UpdateStep& s) {
    const double alpha = static_cast<double>(s.rate) / (1 - std::pow(beta1, s.t));
    return AdamaxNumbers{static_cast<float>(alpha), static_cast<float>(1 - beta1), beta2, epsilon};
  };
}

Prepared prepare(const Facts& facts) { return prepare_elementwise<2>(facts, numbers_of, Run()); }

std::vector<Sample> samples() { return update_samples("adamax", 2, {{"beta1", 0.8}}); }

const Op kAdamax{.name = "adamax",
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
  return u.add(kAdamax, {u.weight, m, u.state("u")}, true);
}

const OptimiserRule kRule{.name = "adamax", .check = check, .add = add};

}  // namespace

OpList adamax_ops() { return {&kAdamax}; }
const OptimiserRule& adamax_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
