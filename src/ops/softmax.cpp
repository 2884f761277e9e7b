// softmax and log_softmax along any axis; the gradients need the output alone.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/short_rows-inl.h"

#ifndef PLIMSOLL_OPS_SOFTMAX_ONCE
#define PLIMSOLL_OPS_SOFTMAX_ONCE
namespace plimsoll::ops {
namespace {
constexpr int64_t kStrip = 1024;
}
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

template <bool kAsLog>
void softmax_short(const float* x, float* y, int64_t rows, int64_t count) {
  const FloatTag d;
  for_short_rows<!kAsLog>(x, count, 0, rows, [&](ShortRows& group, int64_t at, int64_t rest) HWY_ATTR {
    const Floats s = kAsLog ? log_sum_exp(group) : hn::Div(hn::Set(d, 1.0F), hn::Load(d, group.sum));
    group.write(y + at * count, rest, count, [&](Floats v) HWY_ATTR { return kAsLog ? hn::Sub(v, s) : hn::Mul(v, s); });
  });
}

// Rows of consecutive elements. `is_large`: no cache can hold them all.
void softmax_rows(const float* x, float* y, int64_t rows, int64_t count, bool as_log, bool is_large) {
  if (count <= kShortRow) return (as_log ? softmax_short<true> : softmax_short<false>)(x, y, rows, count);
  const FloatTag d;
  const bool is_aligned = reinterpret_cast<uintptr_t>(y) % (hn::Lanes(d) * sizeof(float)) == 0 &&
                          count % static_cast<int64_t>(hn::Lanes(d)) == 0;
  const bool streams = is_large && x != y && is_aligned && count <= kLongestStreamed;
  for_row_groups(0, rows, [&](int64_t i, auto group) HWY_ATTR {
    constexpr int kRows = group();
    const float* from = x + i * count;
    float* to = y + i * count;
    float numbers[kRows];
    std::fill_n(numbers, kRows, 1.0F);
    if (!as_log) return softmax_rows_scaled<kRows>(from, to, count, numbers, streams);
    log_sum_exp_rows<kRows>(from, count, numbers);
    for (int r = 0; r < kRows; ++r)
      for_vectors(count, [&](int64_t k, auto part) HWY_ATTR {
        const int64_t at = r * count + k;
        const Floats v = hn::Sub(part.load(d, from + at), hn::Set(d, numbers[r]));
        if (streams)
          hn::Stream(v, d, to + at);
        else
          part.store(d, v, to + at);
      });
  });
  if (streams) hwy::FlushStream();
}

void softmax_rows_grad(const float* y, const float* dy, float* dx, int64_t rows, int64_t count, bool as_log) {
  const FloatTag d;
  for (int64_t r = 0; r < rows; ++r, y += count, dy += count, dx += count) {
    Floats sums = hn::Zero(d);
    if (as_log) {
      for_vectors(count, [&](int64_t i, auto part) HWY_ATTR { sums = hn::Add(sums, part.load(d, dy + i)); });
    } else {
      for_vectors(count, [&](int64_t i, auto part)
                             HWY_ATTR { sums = hn::MulAdd(part.load(d, y + i), part.load(d, dy + i), sums); });
    }
    const Floats sum = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sums)));
    for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
      const Floats g = part.load(d, dy + i);
      const Floats out = part.load(d, y + i);
      part.store(d, as_log ? hn::NegMulAdd(fast_exp(d, out), sum, g) : hn::Mul(out, hn::Sub(g, sum)), dx + i);
    });
  }
}

// Elements that lie `stride` apart, for up to kStrip neighbouring columns at once; row by row, as memory lies.
void softmax_strip(const float* x, float* y, int64_t count, int64_t stride, int64_t columns, bool as_log) {
  const FloatTag d;
  HWY_ALIGN float top[kStrip];
  HWY_ALIGN float sum[kStrip];
  std::copy(x, x + columns, top);
  std::fill(sum, sum + columns, 0.0F);
  for (int64_t k = 1; k < count; ++k)
    for_vectors(columns, [&](int64_t i, auto part) HWY_ATTR {
      part.store(d, hn::Max(part.load(d, top + i), part.load(d, x + k * stride + i)), top + i);
    });
  for (int64_t k = 0; k < count; ++k)
    for_vectors(columns, [&](int64_t i, auto part) HWY_ATTR {
      const Floats e = fast_exp(d, hn::Sub(part.load(d, x + k * stride + i), part.load(d, top + i)));
      part.store(d, hn::Add(part.load(d, sum + i), e), sum + i);
      if (!as_log) part.store(d, e, y + k * stride + i);
    });
  for_vectors(columns, [&](int64_t i, auto part) HWY_ATTR {
    const Floats s = part.load(d, sum + i);
    part.store(d, as_log ? hn::Add(part.load(d, top + i), log_of(s)) : hn::Div(hn::Set(d, 1.0F), s), sum + i);
  });
  for (int64_t k = 0; k < count; ++k)
    for_vectors(columns, [&](int64_t i, auto part) HWY_ATTR {
      const int64_t at = k * stride + i;
      const Floats s = part.load(d, sum + i);
      part.store(d, as_log ? hn::Sub(part.load(d, x + at), s) : hn::Mul(part.load(d, y + at), s), y + at);
    });
}

void softmax_strip_grad(const float* y, const float* dy, float* dx, int64_t count, int64_t stride, int64_t columns,
                        bool as_log) {
  const FloatTag d;
  HWY_ALIGN float sum[kStrip];
  std::fill(sum, sum + columns, 0.0F);
  for (int64_t k = 0; k < count; ++k)
    for_vectors(columns, [&](int64_t i, auto part) HWY_ATTR {
      const int64_t at = k * stride + i;
      const Floats g = part.load(d, dy + at);
      const Floats s = part.load(d, sum + i);
      part.store(d, as_log ? hn::Add(s, g) : hn::MulAdd(part.load(d, y + at), g, s), sum + i);
    });
  for (int64_t k = 0; k < count; ++k)
    for_vectors(columns, [&](int64_t i, auto part) HWY_ATTR {
      const int64_t at = k * stride + i;
      const Floats g = part.load(d, dy + at);
      const Floats out = part.load(d, y + at);
      const Floats s = part.load(d, sum + i);
      part.store(d, as_log ? hn::NegMulAdd(fast_exp(d, out), s, g) : hn::Mul(out, hn::Sub(g, s)), dx + at);
    });
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_rows_grad);
HWY_EXPORT(softmax_strip);
HWY_EXPORT(softmax_strip_grad);

constexpr int64_t kGrain = 8192;

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const int64_t axis = n.attrs.i("axis");
  if (axis < 0 || axis >= n.in[0].shape.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  n.out = {n.in[0]};
}

void infer_grad(Infer& n) {
  n.expect_inputs(2, 2);
  n.out = {n.in[0]};
}

struct AxisSplit {
  int64_t outer = 1, count = 1, inner = 1;
};

AxisSplit split_at(const Dims& dims, int64_t axis) {
  AxisSplit s;
  for (int i = 0; i < dims.rank(); ++i) (i < axis ? s.outer : i == axis ? s.count : s.inner) *= dims[i];
  return s;
}

// Rows, or strips of columns where the axis is not the last.
template <class Rows, class Columns>
void run(const AxisSplit& s, const Rows& rows, const Columns& columns) {
  if (s.inner == 1) {
    parallel_for(s.outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.count)),
                 [&](int64_t first, int64_t last) { rows(first * s.count, last - first); });
    return;
  }
  // Strips that stay in the second-level cache between the passes.
  const int64_t width = std::clamp<int64_t>(32768 / std::max<int64_t>(1, s.count) / 16 * 16, 64, kStrip);
  const int64_t strips = (s.inner + width - 1) / width;
  const int64_t work = std::max<int64_t>(1, s.count * std::min(s.inner, width));
  parallel_for(s.outer * strips, std::max<int64_t>(1, kGrain / work), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t start = i % strips * width;
      columns(i / strips * s.count * s.inner + start, std::min(width, s.inner - start));
    }
  });
}

template <bool as_log>
Prepared prepare(const Facts& facts) {
  const AxisSplit s = split_at(facts.in[0].dims, facts.attrs.i("axis"));
  const bool is_large = facts.in[0].count() * static_cast<Bytes>(sizeof(float)) > kStreamBytes;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* y = args.output<float>(0);
            run(
                s,
                [&](int64_t at, int64_t rows) {
                  HWY_DYNAMIC_DISPATCH(softmax_rows)(x + at, y + at, rows, s.count, as_log, is_large);
                },
                [&](int64_t at, int64_t columns) {
                  HWY_DYNAMIC_DISPATCH(softmax_strip)(x + at, y + at, s.count, s.inner, columns, as_log);
                });
          })};
}

template <bool as_log>
Prepared prepare_grad(const Facts& facts) {
  const AxisSplit s = split_at(facts.in[0].dims, facts.attrs.i("axis"));
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* y = args.input<float>(0);
            const auto* dy = args.input<float>(1);
            auto* dx = args.output<float>(0);
            run(
                s,
                [&](int64_t at, int64_t rows) {
                  HWY_DYNAMIC_DISPATCH(softmax_rows_grad)(y + at, dy + at, dx + at, rows, s.count, as_log);
                },
                [&](int64_t at, int64_t columns) {
                  HWY_DYNAMIC_DISPATCH(softmax_strip_grad)
                  (y + at, dy + at, dx + at, s.count, s.inner, columns, as_log);
                });
          })};
}

template <int flops>
Cost cost(const Facts& facts) {
  return {flops * static_cast<double>(facts.in[0].count())};
}

BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return in[0].shape[static_cast<int>(attrs.i("axis"))].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

template <Tensor (*function)(Tensor, int, Name)>
std::vector<Sample> samples() {
  const auto along = [](const char* name, Shape shape, int axis) {
    return Sample{name, [=](SampleBuilder& s) { return std::vector{function(s.input(shape, -3, 3), axis, {})}; }};
  };
  return {along("last axis", {Dim::batch(), 3, 11}, -1),
          along("one vector", {Dim::batch(), 8}, 1),
          along("one class", {Dim::batch(), 1}, 1),
          along("three classes", {Dim::batch(), 5, 3}, 2),
          along("groups and a rest", {Dim::batch(), 37, 10}, 2),
          along("long rows", {Dim::batch(), 75}, 1),
          along("channels", {Dim::batch(), 5, 3, 3}, 1),
          along("batch", {Dim::batch(), 5}, 0),
          along("wide columns", {Dim::batch(), 2, 70}, 1)};
}

const Op kSoftmaxGrad{.name = "softmax_grad",
                      .infer = infer_grad,
                      .prepare = prepare_grad<false>,
                      .cost = cost<4>,
                      .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 3},
                      .batch_rule = batch_rule};
const Op kLogSoftmaxGrad{.name = "log_softmax_grad",
                         .infer = infer_grad,
                         .prepare = prepare_grad<true>,
                         .cost = cost<12>,
                         .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 3},
                         .batch_rule = batch_rule};

void grad_softmax(Backward& b) { b.give(0, apply(kSoftmaxGrad, {b.y[0], b.dy[0]}, {{"axis", b.attrs.i("axis")}})); }
void grad_log_softmax(Backward& b) {
  b.give(0, apply(kLogSoftmaxGrad, {b.y[0], b.dy[0]}, {{"axis", b.attrs.i("axis")}}));
}

const Op kSoftmax{.name = "softmax",
                  .storable = true,
                  .infer = infer,
                  .grad = grad_softmax,
                  .prepare = prepare<false>,
                  .cost = cost<14>,
                  .samples = samples<softmax>,
                  .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                  .batch_rule = batch_rule,
                  .onnx = "Softmax"};
const Op kLogSoftmax{.name = "log_softmax",
                     .storable = true,
                     .infer = infer,
                     .grad = grad_log_softmax,
                     .prepare = prepare<true>,
                     .cost = cost<14>,
                     .samples = samples<log_softmax>,
                     .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                     .batch_rule = batch_rule,
                     .onnx = "LogSoftmax"};

}  // namespace

Tensor softmax(Tensor x, int axis, Name name) {
  return apply(kSoftmax, {x}, {{"axis", int64_t{axis < 0 ? axis + x.rank() : axis}}}, name);
}

Tensor log_softmax(Tensor x, int axis, Name name) {
  return apply(kLogSoftmax, {x}, {{"axis", int64_t{axis < 0 ? axis + x.rank() : axis}}}, name);
}

OpList softmax_ops() { return {&kSoftmax, &kLogSoftmax, &kSoftmaxGrad, &kLogSoftmaxGrad}; }

}  // namespace plimsoll::ops
#endif
