// sgd: w -= rate * g, with momentum v = momentum * v - rate * g; w += v (Nesterov: w += momentum * v - rate * g).
// Weight decay is decoupled from the gradient and comes first: w -= w * decay * rate.
#include <cmath>

#include "kernels/update.h"
#include "ops/sample.h"
#include "ops/updates/rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/sgd.cpp"
#include <hwy/foreach_target.h>

#include "kernels/half_state-inl.h"

#ifndef PLIMSOLL_OPS_SGD_ONCE
#define PLIMSOLL_OPS_SGD_ONCE
namespace plimsoll::ops {
namespace {
struct SgdStep {
  float rate, factor, limit, keep, coupled, momentum;
  bool nesterov;
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

template <class State>
HWY_INLINE void run_sgd(const SgdStep& s, float* w, State* velocity, const float* g, int64_t count) {
  const FloatTag d;
  const Floats rate = hn::Set(d, s.rate);
  const Floats keep = hn::Set(d, s.keep);
  const Floats momentum = hn::Set(d, s.momentum);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats old = part.load(d, w + i);
    const Floats gradient = decayed(d, clipped(d, part.load(d, g + i), s.factor, s.limit), old, s.coupled);
    const Floats step = hn::Mul(rate, gradient);
    Floats x = hn::Mul(old, keep);
    if (velocity == nullptr) {
      x = hn::Sub(x, step);
    } else {
      const Floats v = hn::MulSub(momentum, load_state(part, d, velocity + i), step);
      store_state(part, d, v, step, old, 0, velocity + i);
      x = hn::Add(x, s.nesterov ? hn::MulSub(momentum, v, step) : v);
    }
    part.store(d, x, w + i);
  });
}

void sgd_floats(const SgdStep& s, float* w, float* velocity, const float* g, int64_t count) {
  run_sgd(s, w, velocity, g, count);
}
void sgd_halves(const SgdStep& s, float* w, uint16_t* velocity, const float* g, int64_t count) {
  run_sgd(s, w, velocity, g, count);
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(sgd_floats);
HWY_EXPORT(sgd_halves);

void run_dispatched(const SgdStep& s, float* w, float* velocity, const float* g, int64_t count) {
  HWY_DYNAMIC_DISPATCH(sgd_floats)(s, w, velocity, g, count);
}
void run_dispatched(const SgdStep& s, float* w, uint16_t* velocity, const float* g, int64_t count) {
  HWY_DYNAMIC_DISPATCH(sgd_halves)(s, w, velocity, g, count);
}

template <size_t kUpdated>
void infer(Infer& n) {
  infer_update(n, kUpdated, false);
}

template <size_t kUpdated, class State>
Prepared prepare_for(const Facts& facts) {
  const Update update(facts, kUpdated, false);
  const auto decay = static_cast<float>(update.decay.decay);
  const SgdStep settings{.rate = 0,
                         .factor = 1,
                         .limit = static_cast<float>(facts.attrs.f("clip_value", INFINITY)),
                         .keep = 1,
                         .coupled = update.coupled(),
                         .momentum = static_cast<float>(facts.attrs.f("momentum")),
                         .nesterov = facts.attrs.i("nesterov") != 0};
  return {.kernel = make_kernel([=](const Args& args) {
            SgdStep step = settings;
            step.rate = update.rate(args);
            step.factor = update.factor(args);
            step.keep = 1 - decay * step.rate;
            auto* w = update.variable(args);
            State* velocity = kUpdated == 2 ? args.updated<State>(1) : nullptr;
            update.run(args, velocity == nullptr && decay == 0 && step.coupled == 0,
                       [&](int64_t first, int64_t count, const float* g) {
                         run_dispatched(step, w + first, velocity ? velocity + first : nullptr, g, count);
                       });
          }),
          .in = update.layouts,
          .workspace_bytes = update.workspace_bytes};
}

template <size_t kUpdated>
Prepared prepare(const Facts& facts) {
  if (kUpdated == 2 && facts.in[1].dtype == DType::BF16) return prepare_for<kUpdated, uint16_t>(facts);
  return prepare_for<kUpdated, float>(facts);
}

Sample sample(std::string name, bool momentum, bool sparse, bool factor, const Attrs& settings,
              DType state = DType::F32) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor w = s.variable({5, 7});
            const Gradient g = sparse ? Gradient{s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}
                                      : Gradient{s.input({5, 7}), {}};
            const Tensor rate = s.input({}, 0.1, 0.2);
            const Tensor velocity = momentum ? s.variable({5, 7}, -1, 1, state) : Tensor();
            const std::vector<Tensor> updated = momentum ? std::vector{w, velocity} : std::vector{w};
            add_update(*find_op(momentum ? "sgd_momentum" : "sgd"), updated, g, rate, {},
                       factor ? s.input({}, 0.3, 0.9) : Tensor(), settings, {});
            return updated;
          },
          1e-4, false};
}

std::vector<Sample> samples_plain() {
  return {sample("plain", false, false, false, {}),
          sample("clipped, decayed", false, false, false, {{"clip_value", 0.5}, {"weight_decay", 0.01}}),
          sample("factor", false, false, true, {}),
          sample("rows", false, true, true, {}),
          sample("rows, decayed", false, true, false, {{"weight_decay", 0.01}}),
          sample("coupled, own rate", false, false, true, {{"coupled_decay", 0.1}, {"rate_factor", 0.5}}),
          sample("rows, coupled", false, true, false, {{"coupled_decay", 0.1}})};
}

std::vector<Sample> samples_momentum() {
  return {sample("momentum", true, false, false, {{"momentum", 0.9}}),
          sample("nesterov", true, false, true, {{"momentum", 0.9}, {"nesterov", int64_t{1}}}),
          sample("rows", true, true, false, {{"momentum", 0.9}}),
          sample("half state", true, false, false, {{"momentum", 0.9}}, DType::BF16)};
}

const Op kSgd{.name = "sgd",
              .infer = infer<1>,
              .types = kUpdateTypes,
              .prepare = prepare<1>,
              .samples = samples_plain,
              .traits = {.elementwise = true, .updates = 0b1}};

const Op kSgdMomentum{.name = "sgd_momentum",
                      .infer = infer<2>,
                      .types = kUpdateTypes,
                      .prepare = prepare<2>,
                      .samples = samples_momentum,
                      .traits = {.elementwise = true, .updates = 0b11}};

bool has_velocity(const RuleSettings& settings) { return settings["momentum"] != 0; }

void check(const RuleSettings& settings) {
  settings.expect_below_one("momentum");
  if (settings.is("nesterov") && !has_velocity(settings))
    settings.fail("nesterov needs a momentum; set momentum = 0.9");
}

NodeId add(WeightUpdate& u) {
  if (!has_velocity(u.settings)) return u.add(kSgd, {u.weight}, false);
  u.take({"momentum"});
  if (u.settings.is("nesterov")) u.attrs.set("nesterov", int64_t{1});
  return u.add(kSgdMomentum, {u.weight, u.state("velocity")}, false);
}

const OptimiserRule kRule{.name = "sgd", .check = check, .add = add, .keeps_state = has_velocity};

}  // namespace

OpList sgd_ops() { return {&kSgd, &kSgdMomentum}; }
const OptimiserRule& sgd_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
