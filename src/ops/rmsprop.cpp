// rmsprop: v = rho * v + (1 - rho) g^2; w -= rate * g / sqrt(v + epsilon). Centered: a = rho * a + (1 - rho) g and
// v - a^2 in place of v. Momentum: u = momentum * u + step; w -= u. Decay comes first: w -= w * decay * rate.
#include <cmath>

#include "ops/sample.h"
#include "ops/update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rmsprop.cpp"
#include <hwy/foreach_target.h>

#include "ops/vector_math-inl.h"

#ifndef PLIMSOLL_OPS_RMSPROP_ONCE
#define PLIMSOLL_OPS_RMSPROP_ONCE
namespace plimsoll {
namespace {
struct RmspropStep {
  float rate, factor, limit, keep, rho, momentum, epsilon;
};
struct RmspropState {
  float *w, *square, *velocity, *mean;  // velocity, mean: null where not used
};
}  // namespace
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {
namespace {

void rmsprop_run(const RmspropStep& s, const RmspropState& at, const float* g, int64_t count) {
  const FloatTag d;
  const Floats rho = hn::Set(d, s.rho);
  const Floats rest = hn::Set(d, 1 - s.rho);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats gradient = clipped(d, part.load(d, g + i), s.factor, s.limit);
    const Floats square = hn::MulAdd(rho, part.load(d, at.square + i), hn::Mul(rest, hn::Mul(gradient, gradient)));
    part.store(d, square, at.square + i);
    Floats spread = hn::Add(square, hn::Set(d, s.epsilon));
    if (at.mean != nullptr) {
      const Floats mean = hn::MulAdd(rho, part.load(d, at.mean + i), hn::Mul(rest, gradient));
      part.store(d, mean, at.mean + i);
      spread = hn::NegMulAdd(mean, mean, spread);
    }
    Floats step = hn::Div(hn::Mul(hn::Set(d, s.rate), gradient), hn::Sqrt(spread));
    if (at.velocity != nullptr) {
      step = hn::MulAdd(hn::Set(d, s.momentum), part.load(d, at.velocity + i), step);
      part.store(d, step, at.velocity + i);
    }
    part.store(d, hn::MulSub(part.load(d, at.w + i), hn::Set(d, s.keep), step), at.w + i);
  });
}

}  // namespace
}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(rmsprop_run);

// What is kept beside the mean square; each kind is an operator, since it updates other inputs.
enum Keeps : size_t { kNothing = 0, kVelocity = 1, kMean = 2, kBoth = 3 };
constexpr size_t updated_by(size_t keeps) { return 2 + (keeps & kVelocity) + (keeps & kMean) / 2; }

template <size_t kKeeps>
void infer(Infer& n) {
  infer_update(n, updated_by(kKeeps), false);
}

template <size_t kKeeps>
Prepared prepare(const Facts& facts) {
  const Update update(facts, updated_by(kKeeps), false);
  const auto decay = static_cast<float>(facts.attrs.f("weight_decay"));
  const RmspropStep settings{.rate = 0,
                             .factor = 1,
                             .limit = static_cast<float>(facts.attrs.f("clip_value", INFINITY)),
                             .keep = 1,
                             .rho = static_cast<float>(facts.attrs.f("rho", 0.9)),
                             .momentum = static_cast<float>(facts.attrs.f("momentum")),
                             .epsilon = static_cast<float>(facts.attrs.f("epsilon", 1e-7))};
  return {.kernel = make_kernel([=](const Args& args) {
            RmspropStep step = settings;
            step.rate = *args.input<float>(update.inputs.rate());
            step.factor = update.factor(args);
            step.keep = 1 - decay * step.rate;
            update.run(args, false, [&](int64_t first, int64_t count, const float* g) {
              RmspropState at{args.updated<float>(0) + first, args.updated<float>(1) + first, nullptr, nullptr};
              if constexpr ((kKeeps & kVelocity) != 0) at.velocity = args.updated<float>(2) + first;
              if constexpr ((kKeeps & kMean) != 0) at.mean = args.updated<float>(updated_by(kKeeps) - 1) + first;
              HWY_DYNAMIC_DISPATCH(rmsprop_run)(step, at, g, count);
            });
          }),
          .in = update.layouts,
          .scratch_bytes = update.scratch_bytes};
}

Sample sample(std::string name, size_t keeps, bool sparse, bool factor, const Attrs& settings) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Gradient g = sparse ? Gradient{s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}
                                      : Gradient{s.input({5, 7}), {}};
            const Tensor rate = s.input({}, 0.1, 0.2);
            std::vector<Tensor> updated{s.variable({5, 7}), s.variable({5, 7}, 0.5, 1)};
            const Tensor velocity = (keeps & kVelocity) != 0 ? updated.emplace_back(s.variable({5, 7})) : Tensor();
            const Tensor mean = (keeps & kMean) != 0 ? updated.emplace_back(s.variable({5, 7}, -0.3, 0.3)) : Tensor();
            rmsprop(updated[0], g, rate, updated[1], velocity, mean, factor ? s.input({}, 0.3, 0.9) : Tensor(),
                    settings);
            return updated;
          },
          1e-4, false};
}

std::vector<Sample> samples_plain() {
  return {sample("defaults", kNothing, false, false, {}),
          sample("all settings", kNothing, false, true,
                 {{"rho", 0.8}, {"epsilon", 1e-3}, {"weight_decay", 0.01}, {"clip_value", 0.5}}),
          sample("rows", kNothing, true, true, {})};
}
std::vector<Sample> samples_velocity() { return {sample("momentum", kVelocity, false, false, {{"momentum", 0.9}})}; }
std::vector<Sample> samples_mean() { return {sample("centered", kMean, false, false, {})}; }
std::vector<Sample> samples_both() { return {sample("both", kBoth, true, false, {{"momentum", 0.9}})}; }

template <size_t kKeeps>
constexpr Op make_op(std::string_view name, std::vector<Sample> (*samples)()) {
  return {.name = name,
          .infer = infer<kKeeps>,
          .prepare = prepare<kKeeps>,
          .samples = samples,
          .traits = {.elementwise = true, .updates = (1U << updated_by(kKeeps)) - 1}};
}

const Op kPlainOp = make_op<kNothing>("rmsprop", samples_plain);
const Op kVelocityOp = make_op<kVelocity>("rmsprop_momentum", samples_velocity);
const Op kMeanOp = make_op<kMean>("rmsprop_centered", samples_mean);
const Op kBothOp = make_op<kBoth>("rmsprop_centered_momentum", samples_both);

}  // namespace

NodeId rmsprop(Tensor variable, const Gradient& gradient, Tensor rate, Tensor square, Tensor velocity, Tensor mean,
               Tensor factor, const Attrs& settings, Name name) {
  std::vector<Tensor> updated{variable, square};
  if (velocity.is_set()) updated.push_back(velocity);
  if (mean.is_set()) updated.push_back(mean);
  const Op& op = velocity.is_set() ? (mean.is_set() ? kBothOp : kVelocityOp) : (mean.is_set() ? kMeanOp : kPlainOp);
  return add_update(op, updated, gradient, rate, {}, factor, settings, name);
}

OpList rmsprop_ops() { return {&kPlainOp, &kVelocityOp, &kMeanOp, &kBothOp}; }

}  // namespace plimsoll
#endif
