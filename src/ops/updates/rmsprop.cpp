// rmsprop: v = rho * v + (1 - rho) g^2; w -= rate * g / sqrt(v + epsilon). Centered: a = rho * a + (1 - rho) g and
// v - a^2 in place of v.
// With epsilon_after_root, epsilon is added to the root. Momentum: u = momentum * u + step; w -= u. Decay comes first:
// w -= w * decay * rate.
#include <cmath>

#include "kernels/update.h"
#include "ops/sample.h"
#include "ops/updates/rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/rmsprop.cpp"
#include <hwy/foreach_target.h>

#include "kernels/half_state-inl.h"

#ifndef PLIMSOLL_OPS_RMSPROP_ONCE
#define PLIMSOLL_OPS_RMSPROP_ONCE
namespace plimsoll::ops {
namespace {
struct RmspropStep {
  float rate, factor, limit, keep, coupled, rho, momentum, epsilon;
  float outside;  // epsilon beside the root instead, as PyTorch has it
};
template <class State>
struct RmspropState {
  float* w;
  State *square, *velocity, *mean;  // velocity, mean: null where not used
};
}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

template <class State>
HWY_INLINE void run_rmsprop(const RmspropStep& s, const RmspropState<State>& at, const float* g, int64_t count) {
  const FloatTag d;
  const Floats rho = hn::Set(d, s.rho);
  const Floats rest = hn::Set(d, 1 - s.rho);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats old = part.load(d, at.w + i);
    const Floats gradient = decayed(d, clipped(d, part.load(d, g + i), s.factor, s.limit), old, s.coupled);
    const Floats square =
        hn::MulAdd(rho, load_state(part, d, at.square + i), hn::Mul(rest, hn::Mul(gradient, gradient)));
    store_state(part, d, square, gradient, old, 1, at.square + i);
    Floats spread = hn::Add(square, hn::Set(d, s.epsilon));
    if (at.mean != nullptr) {
      const Floats mean = hn::MulAdd(rho, load_state(part, d, at.mean + i), hn::Mul(rest, gradient));
      store_state(part, d, mean, gradient, old, 2, at.mean + i);
      spread = hn::NegMulAdd(mean, mean, spread);
      // In 16 bits a variance near zero may come out negative. In this order of arguments a NaN stays a NaN.
      if constexpr (sizeof(State) == 2) spread = hn::Max(hn::Set(d, s.epsilon), spread);
    }
    const Floats root = hn::Add(hn::Sqrt(spread), hn::Set(d, s.outside));
    Floats step = hn::Div(hn::Mul(hn::Set(d, s.rate), gradient), root);
    if (at.velocity != nullptr) {
      step = hn::MulAdd(hn::Set(d, s.momentum), load_state(part, d, at.velocity + i), step);
      store_state(part, d, step, gradient, old, 3, at.velocity + i);
    }
    part.store(d, hn::MulSub(old, hn::Set(d, s.keep), step), at.w + i);
  });
}

void rmsprop_floats(const RmspropStep& s, const RmspropState<float>& at, const float* g, int64_t count) {
  run_rmsprop(s, at, g, count);
}
void rmsprop_halves(const RmspropStep& s, const RmspropState<uint16_t>& at, const float* g, int64_t count) {
  run_rmsprop(s, at, g, count);
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(rmsprop_floats);
HWY_EXPORT(rmsprop_halves);

void run_dispatched(const RmspropStep& s, const RmspropState<float>& at, const float* g, int64_t count) {
  HWY_DYNAMIC_DISPATCH(rmsprop_floats)(s, at, g, count);
}
void run_dispatched(const RmspropStep& s, const RmspropState<uint16_t>& at, const float* g, int64_t count) {
  HWY_DYNAMIC_DISPATCH(rmsprop_halves)(s, at, g, count);
}

// The state beside the mean square. Each combination is an operator of its own, since it updates other inputs.
enum Keeps : size_t { kNothing = 0, kVelocity = 1, kMean = 2, kBoth = 3 };
constexpr size_t updated_by(size_t keeps) { return 2 + (keeps & kVelocity) + (keeps & kMean) / 2; }

template <size_t kKeeps>
void infer(Infer& n) {
  infer_update(n, updated_by(kKeeps), false);
}

template <size_t kKeeps, class State>
Prepared prepare_for(const Facts& facts) {
  const Update update(facts, updated_by(kKeeps), false);
  const auto decay = static_cast<float>(update.decay.decay);
  const auto epsilon = static_cast<float>(facts.attrs.f("epsilon", 1e-7));
  const bool after_root = facts.attrs.i("epsilon_after_root") != 0;
  const RmspropStep settings{.rate = 0,
                             .factor = 1,
                             .limit = static_cast<float>(facts.attrs.f("clip_value", INFINITY)),
                             .keep = 1,
                             .coupled = update.coupled(),
                             .rho = static_cast<float>(facts.attrs.f("rho", 0.9)),
                             .momentum = static_cast<float>(facts.attrs.f("momentum")),
                             .epsilon = after_root ? 0 : epsilon,
                             .outside = after_root ? epsilon : 0};
  return {.kernel = make_kernel([=](const Args& args) {
            RmspropStep step = settings;
            step.rate = update.rate(args);
            step.factor = update.factor(args);
            step.keep = 1 - decay * step.rate;
            update.run(args, false, [&](int64_t first, int64_t count, const float* g) {
              RmspropState<State> at{update.variable(args) + first, args.updated<State>(1) + first, nullptr, nullptr};
              if constexpr ((kKeeps & kVelocity) != 0) at.velocity = args.updated<State>(2) + first;
              if constexpr ((kKeeps & kMean) != 0) at.mean = args.updated<State>(updated_by(kKeeps) - 1) + first;
              run_dispatched(step, at, g, count);
            });
          }),
          .in = update.layouts,
          .workspace_bytes = update.workspace_bytes};
}

template <size_t kKeeps>
Prepared prepare(const Facts& facts) {
  return facts.in[1].dtype == DType::BF16 ? prepare_for<kKeeps, uint16_t>(facts) : prepare_for<kKeeps, float>(facts);
}

const Op& op_that_keeps(size_t keeps) {
  constexpr std::string_view kNames[] = {"rmsprop", "rmsprop_momentum", "rmsprop_centered",
                                         "rmsprop_centered_momentum"};
  return *find_op(kNames[keeps]);
}

Sample sample(std::string name, size_t keeps, bool sparse, bool factor, const Attrs& settings,
              DType state = DType::F32) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Gradient g = sparse ? Gradient{s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}
                                      : Gradient{s.input({5, 7}), {}};
            const Tensor rate = s.input({}, 0.1, 0.2);
            std::vector<Tensor> updated{s.variable({5, 7}), s.variable({5, 7}, 0.5, 1, state)};
            if ((keeps & kVelocity) != 0) updated.push_back(s.variable({5, 7}, -1, 1, state));
            if ((keeps & kMean) != 0) updated.push_back(s.variable({5, 7}, -0.3, 0.3, state));
            add_update(op_that_keeps(keeps), updated, g, rate, {}, factor ? s.input({}, 0.3, 0.9) : Tensor(), settings,
                       {});
            return updated;
          },
          1e-4, false};
}

std::vector<Sample> samples_plain() {
  return {sample("defaults", kNothing, false, false, {}),
          sample("all settings", kNothing, false, true,
                 {{"rho", 0.8}, {"epsilon", 1e-3}, {"weight_decay", 0.01}, {"clip_value", 0.5}}),
          sample("coupled, own rate", kNothing, false, true, {{"coupled_decay", 0.1}, {"rate_factor", 0.5}}),
          sample("epsilon after root", kNothing, false, false, {{"epsilon", 1e-2}, {"epsilon_after_root", int64_t{1}}}),
          sample("rows", kNothing, true, true, {})};
}
std::vector<Sample> samples_velocity() { return {sample("momentum", kVelocity, false, false, {{"momentum", 0.9}})}; }
std::vector<Sample> samples_mean() { return {sample("centered", kMean, false, false, {})}; }
std::vector<Sample> samples_both() {
  return {sample("both", kBoth, true, false, {{"momentum", 0.9}}),
          sample("half state", kBoth, false, false, {{"momentum", 0.9}}, DType::BF16)};
}

template <size_t kKeeps>
constexpr Op make_op(std::string_view name, std::vector<Sample> (*samples)()) {
  return {.name = name,
          .infer = infer<kKeeps>,
          .types = kUpdateTypes,
          .prepare = prepare<kKeeps>,
          .samples = samples,
          .traits = {.elementwise = true, .updates = (1U << updated_by(kKeeps)) - 1}};
}

const Op kPlainOp = make_op<kNothing>("rmsprop", samples_plain);
const Op kVelocityOp = make_op<kVelocity>("rmsprop_momentum", samples_velocity);
const Op kMeanOp = make_op<kMean>("rmsprop_centered", samples_mean);
const Op kBothOp = make_op<kBoth>("rmsprop_centered_momentum", samples_both);

void check(const RuleSettings& settings) {
  settings.expect_below_one("momentum");
  settings.expect_below_one("rho");
  settings.expect_positive("epsilon");
}

NodeId add(WeightUpdate& u) {
  const bool has_velocity = u.settings["momentum"] != 0, has_mean = u.settings.is("centered");
  u.take({"rho", "epsilon"});
  if (u.settings.is("epsilon_after_root")) u.attrs.set("epsilon_after_root", int64_t{1});
  if (has_velocity) u.take({"momentum"});
  std::vector<Tensor> updated{u.weight, u.state("square")};
  if (has_velocity) updated.push_back(u.state("velocity"));
  if (has_mean) updated.push_back(u.state("mean"));
  return u.add(op_that_keeps((has_velocity ? kVelocity : kNothing) | (has_mean ? kMean : kNothing)), std::move(updated),
               false);
}

const OptimiserRule kRule{.name = "rmsprop", .check = check, .add = add};

}  // namespace

OpList rmsprop_ops() { return {&kPlainOp, &kVelocityOp, &kMeanOp, &kBothOp}; }
const OptimiserRule& rmsprop_rule() { return kRule; }

}  // namespace plimsoll::ops
#endif
