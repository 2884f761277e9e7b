// adam: m += (g - m)(1 - beta1); v += (g^2 - v)(1 - beta2); w -= alpha * m / (sqrt(v) + epsilon), where
// alpha = rate * sqrt(1 - beta2^t) / (1 - beta1^t) and t is the counter. Decay comes first: w -= w * decay * rate.
// With epsilon_after_correction, epsilon is added to sqrt(v) / sqrt(1 - beta2^t) instead: it counts in full from
// step 1.
// AMSGrad keeps the largest v so far and divides by the root of that.
#include <cmath>

#include "kernels/update.h"
#include "ops/sample.h"
#include "ops/updates/rule.h"
#include "ops/updates/update_samples.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/adam.cpp"
#include <hwy/foreach_target.h>

#include "kernels/half_state-inl.h"

#ifndef PLIMSOLL_OPS_ADAM_ONCE
#define PLIMSOLL_OPS_ADAM_ONCE
namespace plimsoll::ops {
namespace {
struct AdamStep {
  float alpha, factor, limit, keep, coupled, rest1, rest2, epsilon;
  uint32_t salt;  // of this step
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

// `most`: the largest v so far; null: not kept.
template <class State>
HWY_INLINE void run_adam(const AdamStep& s, float* w, State* m, State* v, State* most, const float* g, int64_t count) {
  const FloatTag d;
  const Floats alpha = hn::Set(d, s.alpha);
  const Floats keep = hn::Set(d, s.keep);
  const Floats rest1 = hn::Set(d, s.rest1);
  const Floats rest2 = hn::Set(d, s.rest2);
  const Floats epsilon = hn::Set(d, s.epsilon);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats old_w = part.load(d, w + i);
    const Floats gradient = decayed(d, clipped(d, part.load(d, g + i), s.factor, s.limit), old_w, s.coupled);
    const Floats old_m = load_state(part, d, m + i);
    const Floats old_v = load_state(part, d, v + i);
    const Floats next_m = hn::MulAdd(hn::Sub(gradient, old_m), rest1, old_m);
    const Floats next_v = hn::MulAdd(hn::MulSub(gradient, gradient, old_v), rest2, old_v);
    store_state(part, d, next_m, gradient, old_w, s.salt, m + i);
    store_state(part, d, next_v, gradient, old_w, ~s.salt, v + i);
    Floats divisor = next_v;
    if (most != nullptr) {
      divisor = hn::Max(load_state(part, d, most + i), next_v);
      divisor = hn::IfThenElse(hn::IsNaN(next_v), next_v, divisor);
      store_state(part, d, divisor, gradient, old_w, s.salt ^ 0x5bd1e995U, most + i);
    }
    const Floats step = hn::Div(hn::Mul(alpha, next_m), hn::Add(hn::Sqrt(divisor), epsilon));
    part.store(d, hn::MulSub(old_w, keep, step), w + i);
  });
}

void adam_floats(const AdamStep& s, float* w, float* m, float* v, float* most, const float* g, int64_t count) {
  run_adam(s, w, m, v, most, g, count);
}
void adam_halves(const AdamStep& s, float* w, uint16_t* m, uint16_t* v, uint16_t* most, const float* g, int64_t count) {
  run_adam(s, w, m, v, most, g, count);
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(adam_floats);
HWY_EXPORT(adam_halves);

void run_dispatched(const AdamStep& s, float* w, float* m, float* v, float* most, const float* g, int64_t count) {
  HWY_DYNAMIC_DISPATCH(adam_floats)(s, w, m, v, most, g, count);
}
void run_dispatched(const AdamStep& s, float* w, uint16_t* m, uint16_t* v, uint16_t* most, const float* g,
                    int64_t count) {
  HWY_DYNAMIC_DISPATCH(adam_halves)(s, w, m, v, most, g, count);
}

template <size_t kUpdated>
void infer(Infer& n) {
  infer_update(n, kUpdated, true);
}

template <size_t kUpdated, class State>
Prepared prepare_for(const Facts& facts) {
  const Update update(facts, kUpdated, true);
  const double beta1 = facts.attrs.f("beta1", 0.9);
  const double beta2 = facts.attrs.f("beta2", 0.999);
  const bool corrects_epsilon = facts.attrs.i("epsilon_after_correction") != 0;
  const AdamStep settings{.alpha = 0,
                          .factor = 1,
                          .limit = static_cast<float>(facts.attrs.f("clip_value", INFINITY)),
                          .keep = 1,
                          .coupled = update.coupled(),
                          .rest1 = static_cast<float>(1 - beta1),
                          .rest2 = static_cast<float>(1 - beta2),
                          .epsilon = static_cast<float>(facts.attrs.f("epsilon", 1e-7)),
                          .salt = 0};
  return {.kernel = make_kernel([=](const Args& args) {
            const auto rate = static_cast<double>(update.rate(args));
            const auto t = static_cast<double>(*args.input<int64_t>(update.inputs.step()));
            AdamStep step = settings;
            const double correction = std::sqrt(1 - std::pow(beta2, t));
            step.alpha = static_cast<float>(rate * correction / (1 - std::pow(beta1, t)));
            if (corrects_epsilon) step.epsilon = static_cast<float>(step.epsilon * correction);
            step.keep = static_cast<float>(1 - update.decay.decay * rate);
            step.factor = update.factor(args);
            step.salt = static_cast<uint32_t>(*args.input<int64_t>(update.inputs.step()));
            auto* w = update.variable(args);
            auto* m = args.updated<State>(1);
            auto* v = args.updated<State>(2);
            auto* most = kUpdated == 4 ? args.updated<State>(3) : nullptr;
            update.run(args, false, [&](int64_t first, int64_t count, const float* g) {
              run_dispatched(step, w + first, m + first, v + first, most != nullptr ? most + first : nullptr, g, count);
            });
          }),
          .in = update.layouts,
          .workspace_bytes = update.workspace_bytes};
}

template <size_t kUpdated>
Prepared prepare(const Facts& facts) {
  return facts.in[1].dtype == DType::BF16 ? prepare_for<kUpdated, uint16_t>(facts)
                                          : prepare_for<kUpdated, float>(facts);
}

Sample sample(std::string name, bool sparse, bool factor, const Attrs& settings, DType state = DType::F32) {
  return {
      std::move(name),
      [=](SampleBuilder& s) {
        const Tensor w = s.variable({5, 7});
        const Tensor m = s.variable({5, 7}, -1, 1, state);
        const Tensor v = s.variable({5, 7}, 0.1, 1, state);
        const Gradient g = sparse ? Gradient{s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}
                                  : Gradient{s.input({5, 7}), {}};
        const Tensor rate = s.input({}, 0.1, 0.2);
        const Tensor step = s.integers({}, 1, 9, DType::I64);
        add_update(*find_op("adam"), {w, m, v}, g, rate, step, factor ? s.input({}, 0.3, 0.9) : Tensor(), settings, {});
        return std::vector{w, m, v};
      },
      1e-4, false};
}

std::vector<Sample> samples() {
  return {
      sample("defaults", false, false, {}),
      sample("all settings", false, true, {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-3}, {"weight_decay", 0.01}}),
      sample("epsilon after correction", false, false, {{"epsilon", 1e-2}, {"epsilon_after_correction", int64_t{1}}}),
      sample("clipped", false, false, {{"clip_value", 0.5}}),
      sample("coupled, own rate", false, true, {{"coupled_decay", 0.1}, {"rate_factor", 0.5}}),
      sample("rows", true, true, {}),
      sample("half state", false, false, {}, DType::BF16),
      sample("half state, rows", true, true, {}, DType::BF16)};
}

std::vector<Sample> samples_amsgrad() { return update_samples("amsgrad", 3, {{"beta2", 0.9}}); }

const Op kAdam{.name = "adam",
               .infer = infer<3>,
               .types = kUpdateTypes,
               .prepare = prepare<3>,
               .samples = samples,
               .traits = {.elementwise = true, .updates = 0b111}};

const Op kAmsgrad{.name = "amsgrad",
                  .infer = infer<4>,
                  .types = kUpdateTypes,
                  .prepare = prepare<4>,
                  .samples = samples_amsgrad,
                  .traits = {.elementwise = true, .updates = 0b1111}};

void check(const RuleSettings& settings) {
  settings.expect_below_one("beta1");
  settings.expect_below_one("beta2");
  settings.expect_positive("epsilon");
}

NodeId add(WeightUpdate& u) {
  u.take({"beta1", "beta2", "epsilon"});
  if (u.settings.is("epsilon_after_correction")) u.attrs.set("epsilon_after_correction", int64_t{1});
  const Shape& shape = u.weight.shape();
  if (u.settings.is("amsgrad")) {
    if (u.state_bits == 8) u.settings.fail("amsgrad keeps its state in 32 or 16 bits; set state_bits = 16");
    const Tensor m = u.state("m"), v = u.state("v");
    return u.add(kAmsgrad, {u.weight, m, v, u.state("v_most")}, true);
  }
  if (u.state_bits != 8) {
    const Tensor m = u.state("m");
    return u.add(kAdam, {u.weight, m, u.state("v")}, true);
  }
  const int64_t elements = element_count(shape).fixed();
  if (elements < kLeastInBytes) {
    const Tensor m = u.make_whole("m", DType::F32, shape);
    return u.add(kAdam, {u.weight, m, u.make_whole("v", DType::F32, shape)}, true);
  }
  // Under other names than floats: a file with one kind is not read as the other.
  const Tensor m = u.make_whole("m_codes", DType::U8, shape);
  const Tensor v = u.make_whole("v_codes", DType::U8, shape);
  const Shape blocks{blocks_of_bytes(elements)};
  const Tensor m_scale = u.make_whole("m_scale", DType::F32, blocks);
  const Tensor v_scale = u.make_whole("v_scale", DType::F32, blocks);
  return adam_in_bytes(u.weight, u.gradient, u.rate, u.step, m, v, m_scale, v_scale, u.factor, u.attrs, u.name);
}

const OptimiserRule kRule{.name = "adam", .check = check, .add = add, .has_byte_state = true};

}  // namespace

OpList adam_ops() { return {&kAdam, &kAmsgrad}; }
const OptimiserRule& adam_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
