// adadelta: s = rho s + (1 - rho) g^2; step = sqrt(e + epsilon) / sqrt(s + epsilon) g; e = rho e + (1 - rho) step^2;
// w -= rate * step.
#include <cmath>

#include "kernels/elementwise_update.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/adadelta.cpp"
#include <hwy/foreach_target.h>

#include "kernels/elementwise_update-inl.h"

#ifndef PLIMSOLL_OPS_UPDATES_ADADELTA_ONCE
#define PLIMSOLL_OPS_UPDATES_ADADELTA_ONCE
namespace plimsoll::ops {
namespace {
struct AdadeltaNumbers {
  float rate, rho, epsilon;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

struct AdadeltaFormula {
  AdadeltaNumbers n;
  HWY_INLINE Floats operator()(FloatTag d, Floats g, Floats, Floats& square, Floats& delta, Floats&) const {
    const Floats rho = hn::Set(d, n.rho), rest = hn::Set(d, 1 - n.rho), epsilon = hn::Set(d, n.epsilon);
    square = hn::MulAdd(rho, square, hn::Mul(rest, hn::Mul(g, g)));
    const Floats step = hn::Mul(hn::Sqrt(hn::Div(hn::Add(delta, epsilon), hn::Add(square, epsilon))), g);
    delta = hn::MulAdd(rho, delta, hn::Mul(rest, hn::Mul(step, step)));
    return hn::Mul(hn::Set(d, n.rate), step);
  }
};

void adadelta_floats(const UpdateStep& s, const AdadeltaNumbers& n, const UpdateRun<float>& at) {
  update_elements<2>(s, at, AdadeltaFormula{n});
}
void adadelta_halves(const UpdateStep& s, const AdadeltaNumbers& n, const UpdateRun<uint16_t>& at) {
  update_elements<2>(s, at, AdadeltaFormula{n});
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(adadelta_floats);
HWY_EXPORT(adadelta_halves);

struct Run {
  void operator()(const UpdateStep& s, const AdadeltaNumbers& n, const UpdateRun<float>& at) const {
    HWY_DYNAMIC_DISPATCH(adadelta_floats)(s, n, at);
  }
  void operator()(const UpdateStep& s, const AdadeltaNumbers& n, const UpdateRun<uint16_t>& at) const {
    HWY_DYNAMIC_DISPATCH(adadelta_halves)(s, n, at);
  }
};

auto numbers_of(const Attrs& attrs) {
  const auto rho = static_cast<float>(attrs.f("rho", 0.95)), epsilon = static_cast<float>(attrs.f("epsilon", 1e-7));
  return [=](const UpdateStep& s) { return AdadeltaNumbers{s.rate, rho, epsilon}; };
}

Prepared prepare(const Facts& facts) { return prepare_elementwise<2>(facts, numbers_of, Run()); }

std::vector<Sample> samples() { return update_samples("adadelta", 2, {{"rho", 0.8}}); }

const Op kAdadelta{.name = "adadelta",
                   .infer = infer_elementwise<2>,
                   .types = kUpdateTypes,
                   .prepare = prepare,
                   .samples = samples,
                   .traits = {.elementwise = true, .updates = 0b111}};

void check(const RuleSettings& settings) {
  settings.expect_below_one("rho");
  settings.expect_positive("epsilon");
}

NodeId add(WeightUpdate& u) {
  u.take({"rho", "epsilon"});
  const Tensor square = u.state("square");
  return u.add(kAdadelta, {u.weight, square, u.state("delta")}, true);
}

const OptimiserRule kRule{.name = "adadelta", .check = check, .add = add};

}  // namespace

OpList adadelta_ops() { return {&kAdadelta}; }
const OptimiserRule& adadelta_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
