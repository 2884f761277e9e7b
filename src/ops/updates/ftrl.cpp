// ftrl: follow the regularised leader. With p = -rate_power and G = g + 2 l2_shrinkage w:
//   next = n + g^2; z += G - (next^p - n^p) / rate w; n = next
//   w = (clip(z, -l1, l1) - z) / (n^p / rate + 2 l2 + beta / rate)
// n begins with initial_accumulator.
#include <cmath>

#include "kernels/elementwise_update.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/ftrl.cpp"
#include <hwy/foreach_target.h>

#include "kernels/elementwise_update-inl.h"

#ifndef PLIMSOLL_OPS_UPDATES_FTRL_ONCE
#define PLIMSOLL_OPS_UPDATES_FTRL_ONCE
namespace plimsoll::ops {
namespace {
struct FtrlNumbers {
  float rate, power, l1, l2, shrinkage;  // l2: with beta
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

struct FtrlFormula {
  FtrlNumbers n;
  HWY_INLINE Floats operator()(FloatTag d, Floats g, Floats w, Floats& count, Floats& linear, Floats&) const {
    const Floats rate = hn::Set(d, n.rate);
    const Floats next = hn::MulAdd(g, g, count);
    const Floats before = power_of(d, count, n.power), after = power_of(d, next, n.power);
    const Floats slope = hn::MulAdd(hn::Set(d, 2 * n.shrinkage), w, g);
    linear = hn::Add(linear, hn::NegMulAdd(hn::Div(hn::Sub(after, before), rate), w, slope));
    count = next;
    const Floats most = hn::Set(d, n.l1);
    const Floats inside = at_most(most, at_least(hn::Neg(most), linear));
    return hn::Div(hn::Sub(inside, linear), hn::Add(hn::Div(after, rate), hn::Set(d, 2 * n.l2)));
  }
};

void ftrl_floats(const UpdateStep& s, const FtrlNumbers& n, const UpdateRun<float>& at) {
  replace_elements<2>(s, at, FtrlFormula{n});
}
void ftrl_halves(const UpdateStep& s, const FtrlNumbers& n, const UpdateRun<uint16_t>& at) {
  replace_elements<2>(s, at, FtrlFormula{n});
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(ftrl_floats);
HWY_EXPORT(ftrl_halves);

struct Run {
  void operator()(const UpdateStep& s, const FtrlNumbers& n, const UpdateRun<float>& at) const {
    HWY_DYNAMIC_DISPATCH(ftrl_floats)(s, n, at);
  }
  void operator()(const UpdateStep& s, const FtrlNumbers& n, const UpdateRun<uint16_t>& at) const {
    HWY_DYNAMIC_DISPATCH(ftrl_halves)(s, n, at);
  }
};

auto numbers_of(const Attrs& attrs) {
  const double beta = attrs.f("beta"), l2 = attrs.f("l2");
  const auto power = static_cast<float>(-attrs.f("rate_power", -0.5)), l1 = static_cast<float>(attrs.f("l1"));
  const auto shrinkage = static_cast<float>(attrs.f("l2_shrinkage"));
  return [=](const UpdateStep& s) {
    const double both = l2 + beta / (2 * static_cast<double>(s.rate));
    return FtrlNumbers{s.rate, power, l1, static_cast<float>(both), shrinkage};
  };
}

Prepared prepare(const Facts& facts) { return prepare_elementwise<2>(facts, numbers_of, Run()); }

std::vector<Sample> samples() { return update_samples("ftrl", 2, {{"l1", 0.01}, {"l2", 0.1}, {"beta", 0.2}}); }

const Op kFtrl{.name = "ftrl",
               .infer = infer_elementwise<2>,
               .types = kUpdateTypes,
               .prepare = prepare,
               .samples = samples,
               .traits = {.elementwise = true, .updates = 0b111}};

void check(const RuleSettings& settings) {
  for (const char* name : {"initial_accumulator", "l1", "l2", "l2_shrinkage", "beta"})
    settings.expect_at_least_zero(name);
  const double power = settings["rate_power"];
  settings.expect(std::isfinite(power) && power <= 0, "rate_power", "zero or less");
}

NodeId add(WeightUpdate& u) {
  u.take({"rate_power", "l1", "l2", "l2_shrinkage", "beta"});
  const Tensor count = u.state("n", u.settings["initial_accumulator"]);
  return u.add(kFtrl, {u.weight, count, u.state("z")}, true);
}

const OptimiserRule kRule{.name = "ftrl", .check = check, .add = add};

}  // namespace

OpList ftrl_ops() { return {&kFtrl}; }
const OptimiserRule& ftrl_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
