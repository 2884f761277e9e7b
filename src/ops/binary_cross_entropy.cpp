// binary_cross_entropy: mean of max(x, 0) - x * target + log(1 + exp(-|x|)) over logits x.
#include "kernels/pairwise_loss.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/binary_cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

// log(1 + u) for u in [0, 1]: 2 atanh(u / (2 + u)).
HWY_INLINE Floats log_one_plus(FloatTag d, Floats u) {
  const Floats s = hn::Div(u, hn::Add(u, hn::Set(d, 2.0F)));
  const Floats q = hn::Mul(s, s);
  Floats p = hn::Set(d, 2.0F / 13);
  p = hn::MulAdd(p, q, hn::Set(d, 2.0F / 11));
  p = hn::MulAdd(p, q, hn::Set(d, 2.0F / 9));
  p = hn::MulAdd(p, q, hn::Set(d, 2.0F / 7));
  p = hn::MulAdd(p, q, hn::Set(d, 2.0F / 5));
  p = hn::MulAdd(p, q, hn::Set(d, 2.0F / 3));
  p = hn::MulAdd(p, q, hn::Set(d, 2.0F));
  return hn::Mul(p, s);
}

double loss_sum(const float* x, const float* target, int64_t count, float) {
  const FloatTag d;
  Floats sum = hn::Zero(d);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats v = part.load(d, x + i);
    const Floats tail = log_one_plus(d, fast_exp(d, hn::Neg(hn::Abs(v))));
    const Floats loss = hn::Add(hn::NegMulAdd(v, part.load(d, target + i), hn::Max(hn::Zero(d), v)), tail);
    sum = hn::Add(sum, part.keep(d, loss));
  });
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

void logits_grad(const float* x, const float* target, float* y, int64_t count, float factor, float) {
  const FloatTag d;
  const Floats one = hn::Set(d, 1.0F);
  const Floats f = hn::Set(d, factor);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats v = part.load(d, x + i);
    const Floats e = fast_exp(d, hn::Neg(hn::Abs(v)));
    const Floats top = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), e, one);
    const Floats sigmoid = hn::Div(top, hn::Add(one, e));
    part.store(d, hn::Mul(f, hn::Sub(sigmoid, part.load(d, target + i))), y + i);
  });
}

void targets_grad(const float* x, const float*, float* y, int64_t count, float factor, float) {
  for (int64_t i = 0; i < count; ++i) y[i] = -factor * x[i];
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(loss_sum);
HWY_EXPORT(logits_grad);
HWY_EXPORT(targets_grad);

const Op kLogitsGrad{
    .name = "binary_cross_entropy_grad",
    .infer = infer_pair_grad,
    .prepare = [](const Facts& facts) { return prepare_pair_grad(facts, PLIMSOLL_DISPATCHED(logits_grad)); },
    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 0b11}};

const Op kTargetsGrad{
    .name = "binary_cross_entropy_targets_grad",
    .infer = infer_pair_grad,
    .prepare = [](const Facts& facts) { return prepare_pair_grad(facts, PLIMSOLL_DISPATCHED(targets_grad)); },
    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 0b11}};

void grad(Backward& b) {
  if (b.wanted[0]) b.give(0, apply(kLogitsGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
  if (b.wanted[1]) b.give(1, apply(kTargetsGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
}

std::vector<Sample> samples() {
  return {
      {"odd size", [](SampleBuilder& s) {
         return std::vector{binary_cross_entropy(s.input({Dim::batch(), 7}, -4, 4), s.input({Dim::batch(), 7}, 0, 1))};
       }}};
}

const Op kLoss{.name = "binary_cross_entropy",
               .storable = true,
               .infer = infer_pair_loss,
               .grad = grad,
               .prepare = [](const Facts& facts) { return prepare_pair_loss(facts, PLIMSOLL_DISPATCHED(loss_sum)); },
               .samples = samples,
               .traits = {.batch = BatchRule::Sums, .recomputable = true}};

}  // namespace

Tensor binary_cross_entropy(Tensor logits, Tensor targets, Name name) {
  return add_pair_loss(kLoss, logits, targets, {}, name);
}

OpList binary_cross_entropy_ops() { return {&kLoss, &kLogitsGrad, &kTargetsGrad}; }

}  // namespace plimsoll::ops
#endif
