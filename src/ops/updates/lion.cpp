// lion: w -= rate * sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g. Decay comes first: w -= w * decay *
// rate.
#include <cmath>

#include "kernels/update.h"
#include "ops/sample.h"
#include "ops/updates/rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/lion.cpp"
#include <hwy/foreach_target.h>

#include "kernels/half_state-inl.h"

#ifndef PLIMSOLL_OPS_LION_ONCE
#define PLIMSOLL_OPS_LION_ONCE
namespace plimsoll::ops {
namespace {
struct LionStep {
  float rate, factor, limit, keep, coupled, beta1, beta2;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

template <class State>
HWY_INLINE void run_lion(const LionStep& s, float* w, State* m, const float* g, int64_t count) {
  const FloatTag d;
  const Floats rate = hn::Set(d, s.rate);
  const Floats keep = hn::Set(d, s.keep);
  const Floats beta1 = hn::Set(d, s.beta1);
  const Floats beta2 = hn::Set(d, s.beta2);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats old_w = part.load(d, w + i);
    const Floats gradient = decayed(d, clipped(d, part.load(d, g + i), s.factor, s.limit), old_w, s.coupled);
    const Floats old_m = load_state(part, d, m + i);
    const Floats direction = hn::MulAdd(beta1, hn::Sub(old_m, gradient), gradient);
    const Floats next_m = hn::MulAdd(beta2, hn::Sub(old_m, gradient), gradient);
    store_state(part, d, next_m, gradient, old_w, 0, m + i);
    // The sign of zero is zero; a NaN must not vanish, or a bad gradient would train on in silence.
    const Floats size = hn::IfThenElse(hn::IsNaN(direction), direction, hn::CopySign(rate, direction));
    const Floats step = hn::IfThenZeroElse(hn::Eq(direction, hn::Zero(d)), size);
    part.store(d, hn::MulSub(old_w, keep, step), w + i);
  });
}

void lion_floats(const LionStep& s, float* w, float* m, const float* g, int64_t count) { run_lion(s, w, m, g, count); }
void lion_halves(const LionStep& s, float* w, uint16_t* m, const float* g, int64_t count) {
  run_lion(s, w, m, g, count);
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(lion_floats);
HWY_EXPORT(lion_halves);

void run_dispatched(const LionStep& s, float* w, float* m, const float* g, int64_t count) {
  HWY_DYNAMIC_DISPATCH(lion_floats)(s, w, m, g, count);
}
void run_dispatched(const LionStep& s, float* w, uint16_t* m, const float* g, int64_t count) {
  HWY_DYNAMIC_DISPATCH(lion_halves)(s, w, m, g, count);
}

void infer(Infer& n) { infer_update(n, 2, false); }

template <class State>
Prepared prepare_for(const Facts& facts) {
  const Update update(facts, 2, false);
  const auto decay = static_cast<float>(update.decay.decay);
  const LionStep settings{.rate = 0,
                          .factor = 1,
                          .limit = static_cast<float>(facts.attrs.f("clip_value", INFINITY)),
                          .keep = 1,
                          .coupled = update.coupled(),
                          .beta1 = static_cast<float>(facts.attrs.f("beta1", 0.9)),
                          .beta2 = static_cast<float>(facts.attrs.f("beta2", 0.99))};
  return {.kernel = make_kernel([=](const Args& args) {
            LionStep step = settings;
            step.rate = update.rate(args);
            step.factor = update.factor(args);
            step.keep = 1 - decay * step.rate;
            auto* w = update.variable(args);
            auto* m = args.updated<State>(1);
            update.run(args, false, [&](int64_t first, int64_t count, const float* g) {
              run_dispatched(step, w + first, m + first, g, count);
            });
          }),
          .in = update.layouts,
          .workspace_bytes = update.workspace_bytes};
}

Prepared prepare(const Facts& facts) {
  return facts.in[1].dtype == DType::BF16 ? prepare_for<uint16_t>(facts) : prepare_for<float>(facts);
}

Sample sample(std::string name, bool sparse, bool factor, const Attrs& settings, DType state = DType::F32) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor w = s.variable({5, 7});
            const Tensor m = s.variable({5, 7}, -1, 1, state);
            const Gradient g = sparse ? Gradient{s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}
                                      : Gradient{s.input({5, 7}), {}};
            const Tensor rate = s.input({}, 0.1, 0.2);
            add_update(*find_op("lion"), {w, m}, g, rate, {}, factor ? s.input({}, 0.3, 0.9) : Tensor(), settings, {});
            return std::vector{w, m};
          },
          1e-4, false};
}

std::vector<Sample> samples() {
  return {sample("defaults", false, false, {}),
          sample("all settings", false, true, {{"beta1", 0.8}, {"beta2", 0.9}, {"weight_decay", 0.01}}),
          sample("clipped", false, false, {{"clip_value", 0.5}}),
          sample("coupled, own rate", false, true, {{"coupled_decay", 0.1}, {"rate_factor", 0.5}}),
          sample("rows", true, true, {}),
          sample("half state", false, false, {}, DType::BF16)};
}

const Op kLion{.name = "lion",
               .infer = infer,
               .types = kUpdateTypes,
               .prepare = prepare,
               .samples = samples,
               .traits = {.elementwise = true, .updates = 0b11}};

void check(const RuleSettings& settings) {
  settings.expect_below_one("beta1");
  settings.expect_below_one("beta2");
}

NodeId add(WeightUpdate& u) {
  u.take({"beta1", "beta2"});
  return u.add(kLion, {u.weight, u.state("m")}, false);
}

const OptimiserRule kRule{.name = "lion", .check = check, .add = add};

}  // namespace

OpList lion_ops() { return {&kLion}; }
const OptimiserRule& lion_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
