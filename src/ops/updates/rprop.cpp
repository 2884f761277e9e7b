// rprop: each element has a step of its own, which grows by 1.2 while the sign of its gradient stays, and halves where
// it changes: then the element stays this time. Steps begin with the rate. w -= step sign(g).
#include <cmath>

#include "kernels/elementwise_update.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/rprop.cpp"
#include <hwy/foreach_target.h>

#include "kernels/elementwise_update-inl.h"

#ifndef PLIMSOLL_OPS_UPDATES_RPROP_ONCE
#define PLIMSOLL_OPS_UPDATES_RPROP_ONCE
namespace plimsoll::ops {
namespace {
struct RpropNumbers {
  float rate;
  bool is_first;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

struct RpropFormula {
  RpropNumbers n;
  HWY_INLINE Floats operator()(FloatTag d, Floats g, Floats, Floats& before, Floats& size, Floats&) const {
    const Floats one = hn::Set(d, 1.0F), zero = hn::Zero(d);
    const Floats agreement = hn::Mul(g, before);
    const auto grows = hn::Gt(agreement, zero), shrinks = hn::Lt(agreement, zero);
    const Floats factor = hn::IfThenElse(grows, hn::Set(d, 1.2F), hn::IfThenElse(shrinks, hn::Set(d, 0.5F), one));
    const Floats start = n.is_first ? hn::Set(d, n.rate) : size;
    size = at_most(hn::Set(d, 50.0F), at_least(hn::Set(d, 1e-6F), hn::Mul(start, factor)));
    before = hn::IfThenZeroElse(shrinks, g);
    // The sign of zero is zero, a NaN stays one.
    const Floats step = hn::IfThenElse(hn::IsNaN(g), g, hn::CopySign(size, before));
    return hn::IfThenZeroElse(hn::Eq(before, zero), step);
  }
};

void rprop_floats(const UpdateStep& s, const RpropNumbers& n, const UpdateRun<float>& at) {
  update_elements<2>(s, at, RpropFormula{n});
}
void rprop_halves(const UpdateStep& s, const RpropNumbers& n, const UpdateRun<uint16_t>& at) {
  update_elements<2>(s, at, RpropFormula{n});
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(rprop_floats);
HWY_EXPORT(rprop_halves);

struct Run {
  void operator()(const UpdateStep& s, const RpropNumbers& n, const UpdateRun<float>& at) const {
    HWY_DYNAMIC_DISPATCH(rprop_floats)(s, n, at);
  }
  void operator()(const UpdateStep& s, const RpropNumbers& n, const UpdateRun<uint16_t>& at) const {
    HWY_DYNAMIC_DISPATCH(rprop_halves)(s, n, at);
  }
};

auto numbers_of(const Attrs&) {
  return [](const UpdateStep& s) { return RpropNumbers{s.rate, s.t == 1}; };
}

Prepared prepare(const Facts& facts) { return prepare_elementwise<2>(facts, numbers_of, Run()); }

std::vector<Sample> samples() { return update_samples("rprop", 2, {}); }

const Op kRprop{.name = "rprop",
                .infer = infer_elementwise<2>,
                .types = kUpdateTypes,
                .prepare = prepare,
                .samples = samples,
                .traits = {.elementwise = true, .updates = 0b111}};

NodeId add(WeightUpdate& u) {
  const Tensor before = u.state("gradient");
  return u.add(kRprop, {u.weight, before, u.state("size")}, true);
}

const OptimiserRule kRule{.name = "rprop", .add = add};

}  // namespace

OpList rprop_ops() { return {&kRprop}; }
const OptimiserRule& rprop_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
