// softmax and log_softmax along any axis; the gradients need the output alone.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// Needs the target that highway.h has chosen.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

// f(vector) for each whole vector of [0, count), then once for the rest with the lanes past the end from `filler`.
// Loads and stores go through `load` and `store`, which know whether the vector is whole.
struct Lanes {
  Floats d;
  hn::Mask<Floats> mask;
  bool is_whole;
  Vector load(const float* p) const { return is_whole ? hn::LoadU(d, p) : hn::MaskedLoad(mask, d, p); }
  void store(Vector v, float* p) const {
    if (is_whole)
      hn::StoreU(v, d, p);
    else
      hn::BlendedStore(v, mask, d, p);
  }
  Vector keep(Vector v, Vector otherwise) const { return is_whole ? v : hn::IfThenElse(mask, v, otherwise); }
};

template <class Body>
HWY_INLINE void for_vectors(int64_t count, const Body& body) {
  const Floats d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + n <= count; i += n) body(Lanes{d, hn::FirstN(d, static_cast<size_t>(n)), true}, i);
  if (i < count) body(Lanes{d, hn::FirstN(d, static_cast<size_t>(count - i)), false}, i);
}

// One row of consecutive elements.
void softmax_row(const float* x, float* y, int64_t count, bool as_log) {
  const Floats d;
  const auto lowest = hn::Set(d, -HUGE_VALF);
  auto top = lowest;
  for_vectors(count, [&](const Lanes& l, int64_t i) HWY_ATTR { top = hn::Max(top, l.keep(l.load(x + i), lowest)); });
  const float max = hn::GetLane(hn::MaxOfLanes(d, top));
  const auto shift = hn::Set(d, max);
  auto sums = hn::Zero(d);
  if (as_log) {
    for_vectors(count, [&](const Lanes& l, int64_t i) HWY_ATTR {
      sums = hn::Add(sums, l.keep(hn::Exp(d, hn::Sub(l.load(x + i), shift)), hn::Zero(d)));
    });
    const auto offset = hn::Set(d, max + std::log(hn::GetLane(hn::SumOfLanes(d, sums))));
    for_vectors(count, [&](const Lanes& l, int64_t i) HWY_ATTR { l.store(hn::Sub(l.load(x + i), offset), y + i); });
    return;
  }
  for_vectors(count, [&](const Lanes& l, int64_t i) HWY_ATTR {
    const auto e = hn::Exp(d, hn::Sub(l.load(x + i), shift));
    sums = hn::Add(sums, l.keep(e, hn::Zero(d)));
    l.store(e, y + i);
  });
  const auto factor = hn::Set(d, 1 / hn::GetLane(hn::SumOfLanes(d, sums)));
  for_vectors(count, [&](const Lanes& l, int64_t i) HWY_ATTR { l.store(hn::Mul(l.load(y + i), factor), y + i); });
}

void softmax_row_grad(const float* y, const float* dy, float* dx, int64_t count, bool as_log) {
  const Floats d;
  auto sums = hn::Zero(d);
  for_vectors(count, [&](const Lanes& l, int64_t i) HWY_ATTR {
    sums = as_log ? hn::Add(sums, l.load(dy + i)) : hn::MulAdd(l.load(y + i), l.load(dy + i), sums);
  });
  const auto sum = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sums)));
  for_vectors(count, [&](const Lanes& l, int64_t i) HWY_ATTR {
    const auto g = l.load(dy + i);
    const auto out = l.load(y + i);
    l.store(as_log ? hn::NegMulAdd(hn::Exp(d, out), sum, g) : hn::Mul(out, hn::Sub(g, sum)), dx + i);
  });
}

// Elements that lie `stride` apart, for `columns` neighbouring ones at once.
void softmax_columns(const float* x, float* y, int64_t count, int64_t stride, int64_t columns, bool as_log) {
  for_vectors(columns, [&](const Lanes& l, int64_t i) HWY_ATTR {
    auto top = l.load(x + i);
    for (int64_t k = 1; k < count; ++k) top = hn::Max(top, l.load(x + k * stride + i));
    auto sum = hn::Zero(l.d);
    for (int64_t k = 0; k < count; ++k) {
      const auto e = hn::Exp(l.d, hn::Sub(l.load(x + k * stride + i), top));
      sum = hn::Add(sum, e);
      if (!as_log) l.store(e, y + k * stride + i);
    }
    const auto offset = as_log ? hn::Add(top, hn::Log(l.d, sum)) : hn::Div(hn::Set(l.d, 1), sum);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = k * stride + i;
      l.store(as_log ? hn::Sub(l.load(x + at), offset) : hn::Mul(l.load(y + at), offset), y + at);
    }
  });
}

void softmax_columns_grad(const float* y, const float* dy, float* dx, int64_t count, int64_t stride, int64_t columns,
                          bool as_log) {
  for_vectors(columns, [&](const Lanes& l, int64_t i) HWY_ATTR {
    auto sum = hn::Zero(l.d);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = k * stride + i;
      sum = as_log ? hn::Add(sum, l.load(dy + at)) : hn::MulAdd(l.load(y + at), l.load(dy + at), sum);
    }
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = k * stride + i;
      const auto g = l.load(dy + at);
      const auto out = l.load(y + at);
      l.store(as_log ? hn::NegMulAdd(hn::Exp(l.d, out), sum, g) : hn::Mul(out, hn::Sub(g, sum)), dx + at);
    }
  });
}

}  // namespace
}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/parallel.h"
#include "ops/sample.h"

namespace plimsoll {
namespace {

HWY_EXPORT(softmax_row);
HWY_EXPORT(softmax_row_grad);
HWY_EXPORT(softmax_columns);
HWY_EXPORT(softmax_columns_grad);

constexpr int64_t kGrain = 8192;
constexpr int64_t kColumns = 64;  // neighbours that are walked together: a few cache lines of each

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_float(0);
  const int64_t axis = n.attrs.i("axis");
  if (axis < 0 || axis >= n.in[0].shape.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  n.out = {n.in[0]};
}

void infer_grad(Infer& n) {
  n.expect_inputs(2, 2);
  n.out = {n.in[0]};
}

struct Split {
  int64_t outer = 1, count = 1, inner = 1;
};

Split split_at(const Dims& dims, int64_t axis) {
  Split s;
  for (int i = 0; i < dims.rank(); ++i) (i < axis ? s.outer : i == axis ? s.count : s.inner) *= dims[i];
  return s;
}

// Rows, or strips of columns where the axis is not the last.
template <class Row, class Columns>
void run(const Split& s, const Row& row, const Columns& columns) {
  if (s.inner == 1) {
    parallel_for(s.outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.count)),
                 [&](int64_t first, int64_t last) {
                   for (int64_t i = first; i < last; ++i) row(i * s.count);
                 });
    return;
  }
  const int64_t strips = (s.inner + kColumns - 1) / kColumns;
  const int64_t work = std::max<int64_t>(1, s.count * std::min(s.inner, kColumns));
  parallel_for(s.outer * strips, std::max<int64_t>(1, kGrain / work), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t start = i % strips * kColumns;
      columns(i / strips * s.count * s.inner + start, std::min(kColumns, s.inner - start));
    }
  });
}

template <bool as_log>
Prepared prepare(const Facts& facts) {
  const Split s = split_at(facts.in[0].dims, facts.attrs.i("axis"));
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* y = args.output<float>(0);
            run(
                s, [&](int64_t at) { HWY_DYNAMIC_DISPATCH(softmax_row)
                                     (x + at, y + at, s.count, as_log); },
                [&](int64_t at, int64_t columns) {
                  HWY_DYNAMIC_DISPATCH(softmax_columns)(x + at, y + at, s.count, s.inner, columns, as_log);
                });
          })};
}

template <bool as_log>
Prepared prepare_grad(const Facts& facts) {
  const Split s = split_at(facts.in[0].dims, facts.attrs.i("axis"));
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* y = args.input<float>(0);
            const auto* dy = args.input<float>(1);
            auto* dx = args.output<float>(0);
            run(
                s,
                [&](int64_t at) { HWY_DYNAMIC_DISPATCH(softmax_row_grad)
                                  (y + at, dy + at, dx + at, s.count, as_log); },
                [&](int64_t at, int64_t columns) {
                  HWY_DYNAMIC_DISPATCH(softmax_columns_grad)
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
  return {along("last axis", {Dim::batch(), 3, 11}, -1), along("one vector", {Dim::batch(), 8}, 1),
          along("channels", {Dim::batch(), 5, 3, 3}, 1), along("batch", {Dim::batch(), 5}, 0),
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

void grad_softmax(Backward& b) {
  b.give(0, b.y[0].graph().add(kSoftmaxGrad, {b.y[0], b.dy[0]}, {{"axis", b.attrs.i("axis")}}));
}
void grad_log_softmax(Backward& b) {
  b.give(0, b.y[0].graph().add(kLogSoftmaxGrad, {b.y[0], b.dy[0]}, {{"axis", b.attrs.i("axis")}}));
}

const Op kSoftmax{.name = "softmax",
                  .infer = infer,
                  .grad = grad_softmax,
                  .prepare = prepare<false>,
                  .cost = cost<14>,
                  .samples = samples<softmax>,
                  .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                  .batch_rule = batch_rule,
                  .onnx = "Softmax"};
const Op kLogSoftmax{.name = "log_softmax",
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
  return x.graph().add(kSoftmax, {x}, {{"axis", int64_t{axis < 0 ? axis + x.rank() : axis}}}, name);
}

Tensor log_softmax(Tensor x, int axis, Name name) {
  return x.graph().add(kLogSoftmax, {x}, {{"axis", int64_t{axis < 0 ? axis + x.rank() : axis}}}, name);
}

OpList softmax_ops() { return {&kSoftmax, &kLogSoftmax, &kSoftmaxGrad, &kLogSoftmaxGrad}; }

}  // namespace plimsoll
#endif
