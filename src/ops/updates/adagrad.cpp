// adagrad: s += g^2; w -= rate * g / sqrt(s + epsilon), as Keras has it; with epsilon_after_root, as PyTorch has it,
// w -= rate * g / (sqrt(s) + epsilon). s begins with initial_accumulator.
#include <cmath>

#include "kernels/elementwise_update.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/adagrad.cpp"
#include <hwy/foreach_target.h>

#include "kernels/elementwise_update-inl.h"

#ifndef PLIMSOLL_OPS_UPDATES_ADAGRAD_ONCE
#define PLIMSOLL_OPS_UPDATES_ADAGRAD_ONCE
namespace plimsoll::ops {
namespace {
struct AdagradNumbers {
  float rate, inside, outside;  // epsilon under the root, and beside it
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

struct AdagradFormula {
  AdagradNumbers n;
  HWY_INLINE Floats operator()(FloatTag d, Floats g, Floats, Floats& sum, Floats&, Floats&) const {
    sum = hn::MulAdd(g, g, sum);
    const Floats root = hn::Sqrt(hn::Add(sum, hn::Set(d, n.inside)));
    return hn::Div(hn::Mul(hn::Set(d, n.rate), g), hn::Add(root, hn::Set(d, n.outside)));
  }
};

void adagrad_floats(const UpdateStep& s, const AdagradNumbers& n, const UpdateRun<float>& at) {
  update_elements<1>(s, at, AdagradFormula{n});
}
void adagrad_halves(const UpdateStep& s, const AdagradNumbers& n, const UpdateRun<uint16_t>& at) {
  update_elements<1>(s, at, AdagradFormula{n});
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(adagrad_floats);
HWY_EXPORT(adagrad_halves);

struct Run {
  void operator()(const UpdateStep& s, const AdagradNumbers& n, const UpdateRun<float>& at) const {
    HWY_DYNAMIC_DISPATCH(adagrad_floats)(s, n, at);
  }
  void operator()(const UpdateStep& s, const AdagradNumbers& n, const UpdateRun<uint16_t>& at) const {
    HWY_DYNAMIC_DISPATCH(adagrad_halves)(s, n, at);
  }
};

auto numbers_of(const Attrs& attrs) {
  const auto epsilon = static_cast<float>(attrs.f("epsilon", 1e-7));
  const bool after_root = attrs.i("epsilon_after_root") != 0;
  return [=](const UpdateStep& s) {
    return AdagradNumbers{s.rate, after_root ? 0 : epsilon, after_root ? epsilon : 0};
  };
}

Prepared prepare(const Facts& facts) { return prepare_elementwise<1>(facts, numbers_of, Run()); }

std::vector<Sample> samples() { return update_samples("adagrad", 1, {{"epsilon", 1e-3}}); }

const Op kAdagrad{.name = "adagrad",
                  .infer = infer_elementwise<1>,
                  .types = kUpdateTypes,
                  .prepare = prepare,
                  .samples = samples,
                  .traits = {.elementwise = true, .updates = 0b11}};

void check(const RuleSettings& settings) {
  settings.expect_at_least_zero("initial_accumulator");
  settings.expect_positive("epsilon");
}

NodeId add(WeightUpdate& u) {
  u.take({"epsilon"});
  if (u.settings.is("epsilon_after_root")) u.attrs.set("epsilon_after_root", int64_t{1});
  return u.add(kAdagrad, {u.weight, u.state("sum", u.settings["initial_accumulator"])}, true);
}

const OptimiserRule kRule{.name = "adagrad", .check = check, .add = add};

}  // namespace

OpList adagrad_ops() { return {&kAdagrad}; }
const OptimiserRule& adagrad_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
