// layer_norm: each row (the last dimension) less its mean, over its deviation, times gamma, plus beta.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layer_norm.cpp"
#include <hwy/foreach_target.h>
// These follow foreach_target.h, which defines the target:
#include <hwy/highway.h>

#ifndef PLIMSOLL_OPS_LAYER_NORM_ROWS
#define PLIMSOLL_OPS_LAYER_NORM_ROWS
namespace plimsoll::ops {

// Rows in memory and what is known of each.
struct NormRows {
  const float* x;
  const float* dy;   // gradients only
  float* mean;       // written by the forward pass, read by gradients
  float* deviation;  // its inverse: 1 / deviation
  const float* gamma;
  const float* beta;  // forward only
  int64_t width;
  double epsilon;
};

}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Calls body(i, load, store) for each vector of a row; the last may be partial, then load gives zeros beyond the end.
template <class Body>
HWY_INLINE void for_vectors(int64_t count, const Body& body) {
  const D d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  const auto load = [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); };
  const auto store = [&](V v, float* p) HWY_ATTR { hn::StoreU(v, d, p); };
  const auto keep = [&](V v) HWY_ATTR { return v; };
  // Two at a time: their sums run side by side.
  for (; i + 2 * n <= count; i += 2 * n) {
    body(0, i, load, store, keep);
    body(1, i + n, load, store, keep);
  }
  if (i + n <= count) {
    body(0, i, load, store, keep);
    i += n;
  }
  if (i == count) return;
  const auto lanes = hn::FirstN(d, static_cast<size_t>(count - i));
  body(
      1, i, [&](const float* p) HWY_ATTR { return hn::MaskedLoad(lanes, d, p); },
      [&](V v, float* p) HWY_ATTR { hn::BlendedStore(v, lanes, d, p); },
      [&](V v) HWY_ATTR { return hn::IfThenElseZero(lanes, v); });
}

HWY_INLINE float sum_of(V a, V b) {
  const D d;
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

void ForwardRows(const NormRows& rows, int64_t first, int64_t last, float* y) {
  const D d;
  const auto width = static_cast<double>(rows.width);
  for (int64_t row = first; row < last; ++row) {
    const float* x = rows.x + row * rows.width;
    float* out = y + row * rows.width;
    V sum[2] = {hn::Zero(d), hn::Zero(d)};
    for_vectors(rows.width, [&](int k, int64_t i, const auto& load, const auto&, const auto&)
                                HWY_ATTR { sum[k] = hn::Add(sum[k], load(x + i)); });
    const auto mean = static_cast<float>(sum_of(sum[0], sum[1]) / width);
    const V center = hn::Set(d, mean);
    V squares[2] = {hn::Zero(d), hn::Zero(d)};
    for_vectors(rows.width, [&](int k, int64_t i, const auto& load, const auto&, const auto& keep) HWY_ATTR {
      const V distance = keep(hn::Sub(load(x + i), center));
      squares[k] = hn::MulAdd(distance, distance, squares[k]);
    });
    const auto inverse = static_cast<float>(1 / std::sqrt(sum_of(squares[0], squares[1]) / width + rows.epsilon));
    const V scale = hn::Set(d, inverse);
    for_vectors(rows.width, [&](int, int64_t i, const auto& load, const auto& store, const auto&) HWY_ATTR {
      const V xhat = hn::Mul(hn::Sub(load(x + i), center), scale);
      store(hn::MulAdd(xhat, load(rows.gamma + i), load(rows.beta + i)), out + i);
    });
    rows.mean[row] = mean;
    rows.deviation[row] = inverse;
  }
}

void InputGradRows(const NormRows& rows, int64_t first, int64_t last, float* dx) {
  const D d;
  const auto width = static_cast<float>(rows.width);
  for (int64_t row = first; row < last; ++row) {
    const float* x = rows.x + row * rows.width;
    const float* dy = rows.dy + row * rows.width;
    float* out = dx + row * rows.width;
    const V center = hn::Set(d, rows.mean[row]);
    const V scale = hn::Set(d, rows.deviation[row]);
    V sum[2] = {hn::Zero(d), hn::Zero(d)};
    V product[2] = {hn::Zero(d), hn::Zero(d)};
    for_vectors(rows.width, [&](int k, int64_t i, const auto& load, const auto&, const auto&) HWY_ATTR {
      const V g = hn::Mul(load(dy + i), load(rows.gamma + i));
      sum[k] = hn::Add(sum[k], g);
      product[k] = hn::MulAdd(g, hn::Mul(hn::Sub(load(x + i), center), scale), product[k]);
    });
    const V mean_g = hn::Set(d, sum_of(sum[0], sum[1]) / width);
    const V mean_product = hn::Set(d, sum_of(product[0], product[1]) / width);
    for_vectors(rows.width, [&](int, int64_t i, const auto& load, const auto& store, const auto&) HWY_ATTR {
      const V g = hn::Mul(load(dy + i), load(rows.gamma + i));
      const V xhat = hn::Mul(hn::Sub(load(x + i), center), scale);
      store(hn::Mul(scale, hn::NegMulAdd(xhat, mean_product, hn::Sub(g, mean_g))), out + i);
    });
  }
}

// Sums over rows [first, last) of dy xhat and of dy.
void ParameterGradRows(const NormRows& rows, int64_t first, int64_t last, float* dgamma, float* dbeta) {
  const D d;
  std::fill(dgamma, dgamma + rows.width, 0.0F);
  std::fill(dbeta, dbeta + rows.width, 0.0F);
  for (int64_t row = first; row < last; ++row) {
    const float* x = rows.x + row * rows.width;
    const float* dy = rows.dy + row * rows.width;
    const V center = hn::Set(d, rows.mean[row]);
    const V scale = hn::Set(d, rows.deviation[row]);
    for_vectors(rows.width, [&](int, int64_t i, const auto& load, const auto& store, const auto&) HWY_ATTR {
      const V g = load(dy + i);
      store(hn::MulAdd(g, hn::Mul(hn::Sub(load(x + i), center), scale), load(dgamma + i)), dgamma + i);
      store(hn::Add(g, load(dbeta + i)), dbeta + i);
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(ForwardRows);
HWY_EXPORT(InputGradRows);
HWY_EXPORT(ParameterGradRows);

constexpr double kEpsilon = 1e-3;

Shape without_last(const Shape& shape) {
  Shape rows = shape;
  rows.erase(rows.rank() - 1);
  return rows;
}

void expect_rows(const Infer& n) {
  n.expect_positive("epsilon", kEpsilon);
  if (n.in[0].shape.empty()) n.fail("input must have at least one dimension");
}

// x, gamma, beta -> y, mean, 1 / deviation.
void infer(Infer& n) {
  n.expect_inputs(3, 3);
  expect_rows(n);
  const Dim width = n.in[0].shape.back();
  for (const size_t i : {1, 2})
    if (!(n.in[i].shape == Shape{width}))
      n.fail(fmt::format("input {} must be [{}] but is {}", i, to_string(width), to_string(n.in[i])));
  const TensorType statistic{DType::F32, without_last(n.in[0].shape)};
  n.out = {n.in[0], statistic, statistic};
}

struct RowSizes {
  explicit RowSizes(const Facts& facts)
      : width(facts.in[0].dims.back()),
        count(facts.in[0].count() / std::max<int64_t>(1, width)),
        grain(std::max<int64_t>(1, 8192 / std::max<int64_t>(1, width))) {}
  int64_t width, count, grain;
};

Prepared prepare(const Facts& facts) {
  const RowSizes sizes(facts);
  const double epsilon = facts.attrs.f("epsilon", kEpsilon);
  return {.kernel = make_kernel([=](const Args& args) {
            const NormRows rows{args.input<float>(0),  nullptr,
                                args.output<float>(1), args.output<float>(2),
                                args.input<float>(1),  args.input<float>(2),
                                sizes.width,           epsilon};
            parallel_for(sizes.count, sizes.grain, [&](int64_t first, int64_t last) {
              HWY_DYNAMIC_DISPATCH(ForwardRows)(rows, first, last, args.output<float>(0));
            });
          })};
}

// The operands of a gradient: x, dy, mean, 1 / deviation and perhaps gamma.
NormRows known_rows(const Args& args, const RowSizes& sizes, bool with_gamma) {
  // Statistics are read only here; the forward pass writes through the same struct.
  return {args.input<float>(0),
          args.input<float>(1),
          args.updated<float>(2),
          args.updated<float>(3),
          with_gamma ? args.input<float>(4) : nullptr,
          nullptr,
          sizes.width,
          0};
}

void infer_input_grad(Infer& n) {
  n.expect_inputs(5, 5);
  expect_rows(n);
  n.out = {n.in[0]};
}

Prepared prepare_input_grad(const Facts& facts) {
  const RowSizes sizes(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            const NormRows rows = known_rows(args, sizes, true);
            parallel_for(sizes.count, sizes.grain, [&](int64_t first, int64_t last) {
              HWY_DYNAMIC_DISPATCH(InputGradRows)(rows, first, last, args.output<float>(0));
            });
          })};
}

void infer_parameter_grad(Infer& n) {
  n.expect_inputs(4, 4);
  expect_rows(n);
  const TensorType parameter{DType::F32, {n.in[0].shape.back()}};
  n.out = {parameter, parameter};
}

Prepared prepare_parameter_grad(const Facts& facts) {
  const RowSizes sizes(facts);
  const bool accumulate = facts.accumulate;
  // Sums of blocks of rows, added in their order: the same bits for any number of threads.
  const int64_t blocks = std::clamp<int64_t>(sizes.count / std::max<int64_t>(sizes.grain, 16), 1, 16);
  const int64_t stride = round_up(sizes.width, 16);
  return {.kernel = make_kernel([=](const Args& args) {
            const NormRows rows = known_rows(args, sizes, false);
            auto* partial = static_cast<float*>(args.workspace);
            parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
              for (int64_t block = first; block < last; ++block) {
                float* at = partial + block * 2 * stride;
                HWY_DYNAMIC_DISPATCH(ParameterGradRows)
                (rows, sizes.count * block / blocks, sizes.count * (block + 1) / blocks, at, at + stride);
              }
            });
            for (const int which : {0, 1}) {
              auto* out = args.output<float>(static_cast<size_t>(which));
              if (!accumulate) std::fill(out, out + sizes.width, 0.0F);
              for (int64_t block = 0; block < blocks; ++block) {
                const float* more = partial + (block * 2 + which) * stride;
                for (int64_t i = 0; i < sizes.width; ++i) out[i] += more[i];
              }
            }
          }),
          .workspace_bytes = blocks * 2 * stride * static_cast<Bytes>(sizeof(float))};
}

const Op kInputGrad{.name = "layer_norm_input_grad",
                    .infer = infer_input_grad,
                    .prepare = prepare_input_grad,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 0b11}};
const Op kParameterGrad{.name = "layer_norm_parameter_grad",
                        .infer = infer_parameter_grad,
                        .prepare = prepare_parameter_grad,
                        .traits = {.batch = BatchRule::Sums, .recomputable = true}};

void grad(Backward& b) {
  if (b.dy[1].is_set() || b.dy[2].is_set()) throw Error("no gradient flows through the statistics of layer_norm");
  if (b.wanted[0]) b.give(0, apply(kInputGrad, {b.x[0], b.dy[0], b.y[1], b.y[2], b.x[1]}));
  if (!b.wanted[1] && !b.wanted[2]) return;
  const Outputs out = apply(kParameterGrad, {b.x[0], b.dy[0], b.y[1], b.y[2]});
  b.give(1, out[0]);
  b.give(2, out[1]);
}

std::vector<Sample> samples() {
  const auto sample = [](std::string name, Shape shape) {
    return Sample{std::move(name), [=](SampleBuilder& s) {
                    const Tensor x = s.input(shape, -2, 3);
                    const Tensor gamma = s.input({shape.back()}, 0.5, 1.5);
                    return std::vector{layer_norm(x, gamma, s.input({shape.back()}), 1e-2)};
                  }};
  };
  const Dim batch = Dim::batch();
  return {sample("rows", {batch, 16}), sample("odd", {batch, 13}), sample("short", {batch, 3}),
          sample("sequences", {batch, 3, 11}), sample("merged batch", {Dim::batch(3), 9})};
}

const Op kLayerNorm{.name = "layer_norm",
                    .storable = true,
                    .infer = infer,
                    .grad = grad,
                    .prepare = prepare,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                    .onnx = "LayerNormalization"};

}  // namespace

Tensor layer_norm(Tensor x, Tensor gamma, Tensor beta, double epsilon, Name name) {
  return apply(kLayerNorm, {x, gamma, beta}, {{"epsilon", epsilon}}, name);
}

OpList layer_norm_ops() { return {&kLayerNorm, &kInputGrad, &kParameterGrad}; }

}  // namespace plimsoll::ops
#endif  // HWY_ONCE
