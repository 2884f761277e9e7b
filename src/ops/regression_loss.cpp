// mean_squared_error, mean_absolute_error, huber: means over the differences of prediction and target.
#include "kernels/pairwise_loss.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/regression_loss.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

template <class Loss>
HWY_INLINE double sum_over(const float* x, const float* target, int64_t count, const Loss& loss) {
  const FloatTag d;
  Floats sum = hn::Zero(d);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    sum = hn::Add(sum, loss(hn::Sub(part.load(d, x + i), part.load(d, target + i))));  // 0 where nothing was loaded
  });
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

template <class Slope>
HWY_INLINE void write_slopes(const float* x, const float* target, float* y, int64_t count, const Slope& slope) {
  const FloatTag d;
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    part.store(d, slope(hn::Sub(part.load(d, x + i), part.load(d, target + i))), y + i);
  });
}

double squared(const float* x, const float* target, int64_t count, float) {
  return sum_over(x, target, count, [](Floats e) HWY_ATTR { return hn::Mul(e, e); });
}

void squared_grad(const float* x, const float* target, float* y, int64_t count, float factor, float) {
  const Floats f = hn::Set(FloatTag(), 2 * factor);
  write_slopes(x, target, y, count, [&](Floats e) HWY_ATTR { return hn::Mul(e, f); });
}

double absolute(const float* x, const float* target, int64_t count, float) {
  return sum_over(x, target, count, [](Floats e) HWY_ATTR { return hn::Abs(e); });
}

void absolute_grad(const float* x, const float* target, float* y, int64_t count, float factor, float) {
  const FloatTag d;
  const Floats f = hn::Set(d, factor);
  write_slopes(x, target, y, count, [&](Floats e) HWY_ATTR {
    const Floats slope = hn::CopySign(f, hn::Mul(e, f));
    return hn::IfThenElse(hn::Ne(e, hn::Zero(d)), slope, hn::Mul(e, f));  // a NaN stays a NaN
  });
}

double huber(const float* x, const float* target, int64_t count, float delta) {
  const FloatTag d;
  const Floats limit = hn::Set(d, delta);
  return sum_over(x, target, count, [&](Floats e) HWY_ATTR {
    // near (|e| - near / 2), where near = min(|e|, delta)
    const Floats size = hn::Abs(e);
    const Floats near = hn::Min(limit, size);
    return hn::Mul(near, hn::NegMulAdd(near, hn::Set(d, 0.5F), size));
  });
}

void huber_grad(const float* x, const float* target, float* y, int64_t count, float factor, float delta) {
  const FloatTag d;
  const Floats f = hn::Set(d, factor);
  write_slopes(x, target, y, count, [&](Floats e) HWY_ATTR { return hn::Mul(f, clipped(d, e, 1, delta)); });
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(squared);
HWY_EXPORT(squared_grad);
HWY_EXPORT(absolute);
HWY_EXPORT(absolute_grad);
HWY_EXPORT(huber);
HWY_EXPORT(huber_grad);

float delta_of(const Facts& facts) { return static_cast<float>(facts.attrs.f("delta", 1)); }

// NOLINTBEGIN(bugprone-macro-parentheses): a name can't stand in brackets there
#define PLIMSOLL_PAIR_GRAD(op_name, function)                                                                        \
  {                                                                                                                  \
    .name = op_name, .infer = infer_pair_grad,                                                                       \
    .prepare =                                                                                                       \
        [](const Facts& facts) { return prepare_pair_grad(facts, PLIMSOLL_DISPATCHED(function), delta_of(facts)); }, \
    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 0b11},                                    \
  }

const Op kSquaredGrad PLIMSOLL_PAIR_GRAD("mean_squared_error_grad", squared_grad);
const Op kAbsoluteGrad PLIMSOLL_PAIR_GRAD("mean_absolute_error_grad", absolute_grad);
const Op kHuberGrad PLIMSOLL_PAIR_GRAD("huber_grad", huber_grad);

// Symmetric: the gradient of the target is that of the prediction with the two swapped.
template <const Op& kGrad>
void grad(Backward& b) {
  if (b.wanted[0]) b.give(0, apply(kGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
  if (b.wanted[1]) b.give(1, apply(kGrad, {b.x[1], b.x[0], b.dy[0]}, b.attrs));
}

std::vector<Tensor> pair(SampleBuilder& s, double offset, Tensor (*loss)(Tensor, Tensor)) {
  return {loss(s.input({Dim::batch(), 7}), s.input({Dim::batch(), 7}, offset, offset + 1))};
}

std::vector<Sample> squared_samples() {
  return {{"odd size", [](SampleBuilder& s) {
             return pair(s, -0.5, [](Tensor a, Tensor b) { return mean_squared_error(a, b); });
           }}};
}

std::vector<Sample> absolute_samples() {
  return {{"above",
           [](SampleBuilder& s) { return pair(s, 1.1, [](Tensor a, Tensor b) { return mean_absolute_error(a, b); }); }},
          {"below", [](SampleBuilder& s) {
             return pair(s, -2.1, [](Tensor a, Tensor b) { return mean_absolute_error(a, b); });
           }}};
}

std::vector<Sample> huber_samples() {
  return {
      {"both parts", [](SampleBuilder& s) { return pair(s, 0, [](Tensor a, Tensor b) { return huber(a, b, 0.3); }); }},
      {"default", [](SampleBuilder& s) { return pair(s, -1, [](Tensor a, Tensor b) { return huber(a, b); }); }}};
}

#define PLIMSOLL_PAIR_LOSS(op_name, function, grad_op)                                                               \
  {                                                                                                                  \
    .name = op_name, .storable = true, .infer = infer_pair_loss, .grad = grad<grad_op>,                              \
    .prepare =                                                                                                       \
        [](const Facts& facts) { return prepare_pair_loss(facts, PLIMSOLL_DISPATCHED(function), delta_of(facts)); }, \
    .samples = function##_samples, .traits = {.batch = BatchRule::Sums, .recomputable = true},                       \
  }

const Op kSquared PLIMSOLL_PAIR_LOSS("mean_squared_error", squared, kSquaredGrad);
const Op kAbsolute PLIMSOLL_PAIR_LOSS("mean_absolute_error", absolute, kAbsoluteGrad);
const Op kHuber PLIMSOLL_PAIR_LOSS("huber", huber, kHuberGrad);
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace

Tensor mean_squared_error(Tensor prediction, Tensor target, Name name) {
  return add_pair_loss(kSquared, prediction, target, {}, name);
}

Tensor mean_absolute_error(Tensor prediction, Tensor target, Name name) {
  return add_pair_loss(kAbsolute, prediction, target, {}, name);
}

Tensor huber(Tensor prediction, Tensor target, double delta, Name name) {
  return add_pair_loss(kHuber, prediction, target, {{"delta", delta}}, name);
}

OpList regression_loss_ops() { return {&kSquared, &kSquaredGrad, &kAbsolute, &kAbsoluteGrad, &kHuber, &kHuberGrad}; }

}  // namespace plimsoll::ops
#endif
