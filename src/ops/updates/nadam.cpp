// nadam: adam with Nesterov's momentum. With mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2) and p_t the product of mu_1
// to mu_t:
//   w -= rate (mu_t+1 m / (1 - p_t+1) + (1 - mu_t) g / (1 - p_t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
// Keras has a momentum_decay of 1, PyTorch one of 0.004.
#include <cmath>

#include "kernels/elementwise_update.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/nadam.cpp"
#include <hwy/foreach_target.h>

#include "kernels/elementwise_update-inl.h"

#ifndef PLIMSOLL_OPS_UPDATES_NADAM_ONCE
#define PLIMSOLL_OPS_UPDATES_NADAM_ONCE
namespace plimsoll::ops {
namespace {
struct NadamNumbers {
  float of_m, of_g, rest1, rest2, correction, epsilon;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

struct NadamFormula {
  NadamNumbers n;
  HWY_INLINE Floats operator()(FloatTag d, Floats g, Floats, Floats& m, Floats& v, Floats&) const {
    m = hn::MulAdd(hn::Sub(g, m), hn::Set(d, n.rest1), m);
    v = hn::MulAdd(hn::MulSub(g, g, v), hn::Set(d, n.rest2), v);
    const Floats ahead = hn::MulAdd(hn::Set(d, n.of_m), m, hn::Mul(hn::Set(d, n.of_g), g));
    return hn::Div(ahead, hn::MulAdd(hn::Sqrt(v), hn::Set(d, n.correction), hn::Set(d, n.epsilon)));
  }
};

void nadam_floats(const UpdateStep& s, const NadamNumbers& n, const UpdateRun<float>& at) {
  update_elements<2>(s, at, NadamFormula{n});
}
void nadam_halves(const UpdateStep& s, const NadamNumbers& n, const UpdateRun<uint16_t>& at) {
  update_elements<2>(s, at, NadamFormula{n});
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(nadam_floats);
HWY_EXPORT(nadam_halves);

struct Run {
  void operator()(const UpdateStep& s, const NadamNumbers& n, const UpdateRun<float>& at) const {
    HWY_DYNAMIC_DISPATCH(nadam_floats)(s, n, at);
  }
  void operator()(const UpdateStep& s, const NadamNumbers& n, const UpdateRun<uint16_t>& at) const {
    HWY_DYNAMIC_DISPATCH(nadam_halves)(s, n, at);
  }
};

double momentum_at(double beta1, double decay, double t) { return beta1 * (1 - 0.5 * std::pow(0.96, t * decay)); }

// The product of mu_1 to mu_t. It ends where no further factor changes what depends on it: below 1e-20, or where mu has
// become beta1, whose power is known. So it takes some hundred factors at most, whatever t is.
double product_until(double beta1, double decay, double t) {
  double product = 1;
  for (double i = 1; i <= t && product > 1e-20; ++i) {
    if (std::pow(0.96, i * decay) < 1e-12) return product * std::pow(beta1, t - i + 1);
    product *= momentum_at(beta1, decay, i);
  }
  return product;
}

auto numbers_of(const Attrs& attrs) {
  const double beta1 = attrs.f("beta1", 0.9), beta2 = attrs.f("beta2", 0.999);
  const double decay = attrs.f("momentum_decay", 1);
  const auto epsilon = static_cast<float>(attrs.f("epsilon", 1e-7));
  return [=](const UpdateStep& s) {
    const double now = momentum_at(beta1, decay, s.t), next = momentum_at(beta1, decay, s.t + 1);
    const double product = product_until(beta1, decay, s.t);
    const auto rate = static_cast<double>(s.rate);
    return NadamNumbers{.of_m = static_cast<float>(rate * next / (1 - product * next)),
                        .of_g = static_cast<float>(rate * (1 - now) / (1 - product)),
                        .rest1 = static_cast<float>(1 - beta1),
                        .rest2 = static_cast<float>(1 - beta2),
                        .correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, s.t))),
                        .epsilon = epsilon};
  };
}

Prepared prepare(const Facts& facts) { return prepare_elementwise<2>(facts, numbers_of, Run()); }

std::vector<Sample> samples() { return update_samples("nadam", 2, {{"beta1", 0.8}, {"momentum_decay", 0.5}}); }

const Op kNadam{.name = "nadam",
                .infer = infer_elementwise<2>,
                .types = kUpdateTypes,
                .prepare = prepare,
                .samples = samples,
                .traits = {.elementwise = true, .updates = 0b111}};

void check(const RuleSettings& settings) {
  settings.expect_below_one("beta1");
  settings.expect_below_one("beta2");
  settings.expect_positive("epsilon");
  settings.expect_at_least_zero("momentum_decay");
}

NodeId add(WeightUpdate& u) {
  u.take({"beta1", "beta2", "epsilon", "momentum_decay"});
  const Tensor m = u.state("m");
  return u.add(kNadam, {u.weight, m, u.state("v")}, true);
}

const OptimiserRule kRule{.name = "nadam", .check = check, .add = add};

}  // namespace

OpList nadam_ops() { return {&kNadam}; }
const OptimiserRule& nadam_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
