// reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, reduce_any, reduce_all over any axes.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/image_order.h"
#include "kernels/integer_map.h"
#include "kernels/parallel.h"
#include "kernels/plain_reduction.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kTile = 1024;  // columns whose shares stay in the first-level cache

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const Dims axes = n.attrs.dims("axes");
  const int rank = n.in[0].shape.rank();
  for (const int64_t axis : axes)
    if (axis >= rank || std::count(axes.begin(), axes.end(), axis) != 1)
      n.fail(fmt::format("axes {} of {}: each must be below {} and appear once", to_string(axes), to_string(n.in[0]),
                         rank));
  const bool keep = n.attrs.i("keep") != 0;
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced) out.push_back(n.in[0].shape[i]);
    if (reduced && keep) out.push_back(1);
  }
  n.out = {{n.in[0].dtype, out}};
}

bool reduces_batch(const Attrs& attrs, std::span<const TensorType> in) {
  for (const int64_t axis : attrs.dims("axes"))
    if (in[0].shape[static_cast<int>(axis)].is_batch()) return true;
  return false;
}
BatchRule sum_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return reduces_batch(attrs, in) ? BatchRule::Sums : BatchRule::Rows;
}
BatchRule extreme_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return reduces_batch(attrs, in) ? BatchRule::Mixes : BatchRule::Rows;
}

Shape kept_shape(const Attrs& attrs, Shape shape) {
  for (const int64_t axis : attrs.dims("axes")) shape[static_cast<int>(axis)] = 1;
  return shape;
}

Prepared prepare(const Facts& facts, Reduce how, double factor) {
  Dims dims = facts.in[0].dims;
  Dims axes = facts.attrs.dims("axes");
  if (is_large_integer(facts.in[0].dtype))
    return prepare_plain_reduction(facts,
                                   how == Reduce::Sum   ? PlainReduce::Sum
                                   : how == Reduce::Max ? PlainReduce::Max
                                                        : PlainReduce::Min,
                                   axes);
  Prepared prepared;
  // Blocked channels can be summed where they lie, as [N, C/8, H, W, 8], if what remains comes out row-major.
  const auto reduces = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  if (!facts.in[0].layout.is_plain() && dims.rank() > 2) {
    const ImageOrder order(facts.in[0].layout, dims);
    const int64_t block = order.block();
    bool images_vanish = order.is_known() && dims[1] % block == 0;
    for (int i = 2; i < dims.rank(); ++i) images_vanish = images_vanish && reduces(i);
    if (images_vanish) {
      if (reduces(1)) axes.push_back(dims.rank());
      dims[1] /= block;
      dims.push_back(block);
      prepared.in = {facts.in[0].layout};
    }
  }
  const Reduction reduction(how, geometry_of(dims, axes), factor, facts.accumulate);
  prepared.workspace_bytes = reduction.workspace_bytes();
  prepared.kernel = make_kernel(
      [=](const Args& args) { reduction.run(args.input<float>(0), args.output<float>(0), args.workspace); });
  return prepared;
}

Prepared prepare_sum(const Facts& facts) { return prepare(facts, Reduce::Sum, 1); }
Prepared prepare_max(const Facts& facts) { return prepare(facts, Reduce::Max, 1); }
Prepared prepare_min(const Facts& facts) { return prepare(facts, Reduce::Min, 1); }
Prepared prepare_product(const Facts& facts) {
  return prepare_plain_reduction(facts, PlainReduce::Product, facts.attrs.dims("axes"));
}
// `count` may be a multiple of the batch. That is the whole batch, so that micro-batches add up to the mean.
double mean_factor(const Facts& facts) {
  return 1.0 / static_cast<double>(std::max<int64_t>(1, facts.attrs.shape("count")[0].at(facts.whole_batch)));
}
Prepared prepare_mean(const Facts& facts) { return prepare(facts, Reduce::Sum, mean_factor(facts)); }

void infer_mean(Infer& n) {
  infer(n);
  Dim count = 1;
  for (const int64_t axis : n.attrs.dims("axes")) count = count * n.in[0].shape[static_cast<int>(axis)];
  if (!(n.attrs.shape("count") == Shape{count}))
    n.fail(fmt::format("count must be [{}], the number of elements in each mean", to_string(count)));
}

// divide_by_count: the gradient of a mean before it is repeated.
void infer_divide(Infer& n) {
  n.expect_inputs(1, 1);
  if (n.attrs.shape("count").rank() != 1) n.fail("count must be one number");
  n.out = {n.in[0]};
}
Prepared prepare_divide(const Facts& facts) {
  const auto factor = static_cast<float>(mean_factor(facts));
  const int64_t count = facts.in[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* y = args.output<float>(0);
            parallel_for(count, kGrain, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) y[i] = x[i] * factor;
            });
          })};
}

const Op kDivideByCount{.name = "divide_by_count",
                        .infer = infer_divide,
                        .prepare = prepare_divide,
                        .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1}};

// reduce_extreme_grad(x, y, dy): the gradient goes to the elements equal to the extreme, in equal parts.
void infer_extreme_grad(Infer& n) {
  n.expect_inputs(3, 3);
  n.out = {n.in[0]};
}

void spread_to_ties(const Geometry& g, const float* x, const float* y, const float* dy, float* dx) {
  const int64_t columns = g.run_is_kept ? (g.run + kTile - 1) / kTile : 1;
  const int64_t work = g.reduced.count * g.run / columns;
  parallel_for(g.kept.count * columns, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
               [&](int64_t first, int64_t last) {
                 for (int64_t t = first; t < last; ++t) {
                   const int64_t base = g.kept.offset(t / columns);
                   if (!g.run_is_kept) {
                     int64_t ties = 0;
                     for (int64_t r = 0; r < g.reduced.count; ++r) {
                       const float* row = x + base + g.reduced.offset(r);
                       for (int64_t j = 0; j < g.run; ++j) ties += row[j] == y[t];
                     }
                     const float share = dy[t] / static_cast<float>(std::max<int64_t>(1, ties));
                     for (int64_t r = 0; r < g.reduced.count; ++r) {
                       const int64_t at = base + g.reduced.offset(r);
                       for (int64_t j = 0; j < g.run; ++j) dx[at + j] = x[at + j] == y[t] ? share : 0;
                     }
                     continue;
                   }
                   const int64_t column = t % columns * kTile;
                   const int64_t width = std::min(kTile, g.run - column);
                   const float* extreme = y + t / columns * g.run + column;
                   float share[kTile];
                   std::fill(share, share + width, 0.0F);
                   for (int64_t r = 0; r < g.reduced.count; ++r) {
                     const float* row = x + base + g.reduced.offset(r) + column;
                     for (int64_t j = 0; j < width; ++j) share[j] += row[j] == extreme[j] ? 1.0F : 0.0F;
                   }
                   for (int64_t j = 0; j < width; ++j)
                     share[j] = dy[t / columns * g.run + column + j] / std::max(1.0F, share[j]);
                   for (int64_t r = 0; r < g.reduced.count; ++r) {
                     const int64_t at = base + g.reduced.offset(r) + column;
                     for (int64_t j = 0; j < width; ++j) dx[at + j] = x[at + j] == extreme[j] ? share[j] : 0;
                   }
                 }
               });
}

Prepared prepare_extreme_grad(const Facts& facts) {
  const Geometry g = geometry_of(facts.in[0].dims, facts.attrs.dims("axes"));
  return {.kernel = make_kernel([=](const Args& args) {
            spread_to_ties(g, args.input<float>(0), args.input<float>(1), args.input<float>(2), args.output<float>(0));
          })};
}

const Op kReduceExtremeGrad{.name = "reduce_extreme_grad",
                            .infer = infer_extreme_grad,
                            .prepare = prepare_extreme_grad,
                            .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                            .batch_rule = extreme_rule};

// reduce_prod_grad(x, dy): dy times the product of the other elements, zeros among them or not.
void infer_product_grad(Infer& n) {
  n.expect_inputs(2, 2);
  n.out = {n.in[0]};
}

Prepared prepare_product_grad(const Facts& facts) {
  const Geometry g = geometry_of(facts.in[0].dims, facts.attrs.dims("axes"));
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            const auto* dy = args.input<float>(1);
            auto* dx = args.output<float>(0);
            const int64_t items = g.reduced.count * (g.run_is_kept ? 1 : g.run);
            parallel_for(
                g.outputs(), std::max<int64_t>(1, kGrain / std::max<int64_t>(1, items)),
                [&](int64_t first, int64_t last) {
                  for (int64_t t = first; t < last; ++t) {
                    const int64_t base = g.run_is_kept ? g.kept.offset(t / g.run) + t % g.run : g.kept.offset(t);
                    const auto place = [&](int64_t i) {
                      return base + (g.run_is_kept ? g.reduced.offset(i) : g.reduced.offset(i / g.run) + i % g.run);
                    };
                    int64_t zeros = 0;
                    double product = dy[t];  // of all that are not zero
                    for (int64_t i = 0; i < items; ++i) {
                      const float number = x[place(i)];
                      if (number == 0)
                        ++zeros;
                      else
                        product *= number;
                    }
                    for (int64_t i = 0; i < items; ++i) {
                      const float number = x[place(i)];
                      const bool has_other_zero = zeros > (number == 0 ? 1 : 0);
                      dx[place(i)] = has_other_zero ? 0 : static_cast<float>(number == 0 ? product : product / number);
                    }
                  }
                });
          })};
}

const Op kReduceProdGrad{.name = "reduce_prod_grad",
                         .infer = infer_product_grad,
                         .prepare = prepare_product_grad,
                         .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                         .batch_rule = extreme_rule};

void repeat(Backward& b, Tensor dy) {
  const Shape shape = b.x[0].shape();
  b.give(0, broadcast_to(reshape(dy, kept_shape(b.attrs, shape)), shape));
}
void grad_sum(Backward& b) { repeat(b, b.dy[0]); }
void grad_mean(Backward& b) { repeat(b, apply(kDivideByCount, {b.dy[0]}, {{"count", b.attrs.shape("count")}})); }
void grad_extreme(Backward& b) {
  b.give(0, apply(kReduceExtremeGrad, {b.x[0], b.y[0], b.dy[0]}, {{"axes", b.attrs.shape("axes")}}));
}

void grad_prod(Backward& b) { b.give(0, apply(kReduceProdGrad, {b.x[0], b.dy[0]}, {{"axes", b.attrs.shape("axes")}})); }

using Function = Tensor (*)(Tensor x, Dims axes, bool keep, Name name);

// Numeric gradients of extremes need elements that are far apart; the outputs of a convolution are not, whatever its
// range.
template <Function reduce, int range>
std::vector<Sample> samples() {
  const auto over = [](const char* name, Shape shape, Dims axes, bool keep = false) {
    return Sample{name,
                  [=](SampleBuilder& s) { return std::vector{reduce(s.input(shape, -range, range), axes, keep, {})}; }};
  };
  return {
      over("last axis", {Dim::batch(), 3, 7}, {2}),
      over("last axes kept", {Dim::batch(), 3, 5, 3}, {-2, -1}, true),
      over("batch", {Dim::batch(), 11}, {0}),
      over("rows", {Dim::batch(3), 5, 4}, {0, 1}),
      over("images", {Dim::batch(), 3, 3, 5}, {0, 2, 3}),
      over("middle", {Dim::batch(), 3, 5}, {1}, true),
      over("alternating", {3, Dim::batch(), 2, 5}, {0, 2}),
      over("everything", {Dim::batch(), 3, 5}, {}),
      {"blocked images",  // convolutions leave their results in blocks
       [](SampleBuilder& s) {
         const Tensor x = conv2d(s.input({Dim::batch(), 8, 2, 2}, -range, range), s.input({8, 8, 1, 1}));
         return std::vector{reduce(x, {2, 3}, false, {}), reduce(x, {0, 2, 3}, false, {}), reduce(x, {1}, false, {})};
       },
       1e-4, range == 1},
      {"integers",
       [](SampleBuilder& s) {
         const Tensor x = s.integers({Dim::batch(), 3, 5}, -9, 9);
         const Tensor y = s.integers({Dim::batch(), 7}, 0, 9, DType::I64);
         return std::vector{reduce(x, {1}, false, {}), reduce(x, {2}, true, {}), reduce(x, {0, 1}, false, {}),
                            reduce(y, {}, false, {})};
       },
       1e-4, false}};
}

// Of few elements, some of them zero.
std::vector<Sample> samples_prod() {
  return {{"last axis",
           [](SampleBuilder& s) {
             return std::vector{reduce_prod(s.input({Dim::batch(), 3, 5}, 0.5, 2), {2})};
           }},
          {"middle",
           [](SampleBuilder& s) {
             return std::vector{reduce_prod(s.input({Dim::batch(), 3, 2}, -2, 2), {1}, true)};
           }},
          {"batch",
           [](SampleBuilder& s) {
             return std::vector{reduce_prod(s.input({Dim::batch(), 3}), {0})};
           }},
          {"zeros",
           [](SampleBuilder& s) {
             const Tensor kept = cast(s.integers({Dim::batch(), 5, 4}, -1, 3), DType::F32);
             return std::vector{reduce_prod(s.input({Dim::batch(), 5, 4}, 0.5, 2) * kept, {2})};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{reduce_prod(s.integers({Dim::batch(), 3, 5}, 1, 4), {2}),
                                reduce_prod(s.integers({Dim::batch(), 7}, -3, 4, DType::I64), {1})};
           },
           1e-4, false}};
}

template <Function reduce>
std::vector<Sample> samples_of_bools() {
  return {{"bools",
           [](SampleBuilder& s) {
             const Tensor x = s.integers({Dim::batch(), 3, 5}, 0, 2, DType::Bool);
             return std::vector{reduce(x, {2}, false, {}), reduce(x, {0}, true, {}), reduce(x, {}, false, {})};
           },
           1e-4, false}};
}

constexpr DTypes kReduced{DType::F32, DType::I32, DType::I64};
const Op kReduceSum{.name = "reduce_sum",
                    .storable = true,
                    .infer = infer,
                    .types = {kReduced},
                    .grad = grad_sum,
                    .prepare = prepare_sum,
                    .cost = [](const Facts& facts) { return Cost{.bytes = 1.8 * facts.operand_bytes()}; },

                    .samples = samples<reduce_sum, 1>,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true},
                    .batch_rule = sum_rule,
                    .onnx = "ReduceSum"};
const Op kReduceMean{.name = "reduce_mean",
                     .storable = true,
                     .infer = infer_mean,
                     .grad = grad_mean,
                     .prepare = prepare_mean,
                     .samples = samples<reduce_mean, 1>,
                     .traits = {.batch = BatchRule::Rows, .recomputable = true},
                     .batch_rule = sum_rule,
                     .onnx = "ReduceMean"};
const Op kReduceMax{.name = "reduce_max",
                    .storable = true,
                    .infer = infer,
                    .types = {kReduced},
                    .grad = grad_extreme,
                    .prepare = prepare_max,
                    .samples = samples<reduce_max, 30>,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true},
                    .batch_rule = extreme_rule,
                    .onnx = "ReduceMax"};
const Op kReduceMin{.name = "reduce_min",
                    .storable = true,
                    .infer = infer,
                    .types = {kReduced},
                    .grad = grad_extreme,
                    .prepare = prepare_min,
                    .samples = samples<reduce_min, 30>,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true},
                    .batch_rule = extreme_rule,
                    .onnx = "ReduceMin"};
const Op kReduceProd{.name = "reduce_prod",
                     .storable = true,
                     .infer = infer,
                     .types = {kReduced},
                     .grad = grad_prod,
                     .prepare = prepare_product,
                     .samples = samples_prod,
                     .traits = {.batch = BatchRule::Rows, .recomputable = true},
                     .batch_rule = extreme_rule,
                     .onnx = "ReduceProd"};
const Op kReduceAny{.name = "reduce_any", .types = {kAnyType}, .samples = samples_of_bools<reduce_any>};
const Op kReduceAll{.name = "reduce_all", .types = {kAnyType}, .samples = samples_of_bools<reduce_all>};

// No axes means all axes; a negative axis counts from the end.
Dims resolve(Tensor x, Dims axes) {
  if (axes.empty())
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  for (int64_t& axis : axes) {
    if (axis < -x.rank() || axis >= x.rank())
      throw Error(fmt::format("reduce: axis {} is outside {}", axis, to_string(x.type())));
    if (axis < 0) axis += x.rank();
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

Tensor reduce(const Op& op, Tensor x, Dims axes, bool keep, Name name) {
  return apply(op, {x}, {{"axes", Shape::from(resolve(x, axes))}, {"keep", int64_t{keep}}}, name);
}

}  // namespace

Tensor reduce_sum(Tensor x, Dims axes, bool keep, Name name) { return reduce(kReduceSum, x, axes, keep, name); }
Tensor reduce_max(Tensor x, Dims axes, bool keep, Name name) { return reduce(kReduceMax, x, axes, keep, name); }
Tensor reduce_min(Tensor x, Dims axes, bool keep, Name name) { return reduce(kReduceMin, x, axes, keep, name); }

Tensor reduce_prod(Tensor x, Dims axes, bool keep, Name name) { return reduce(kReduceProd, x, axes, keep, name); }
Tensor reduce_any(Tensor x, Dims axes, bool keep, Name name) {
  return cast(reduce_max(cast(cast(x, DType::Bool), DType::I32), axes, keep), DType::Bool, name);
}
Tensor reduce_all(Tensor x, Dims axes, bool keep, Name name) {
  return cast(reduce_min(cast(cast(x, DType::Bool), DType::I32), axes, keep), DType::Bool, name);
}

Tensor reduce_mean(Tensor x, Dims axes, bool keep, Name name) {
  if (is_large_integer(x.dtype())) x = cast(x, DType::F32);
  axes = resolve(x, axes);
  Dim count = 1;
  for (const int64_t axis : axes) count = count * x.dim(static_cast<int>(axis));
  return apply(kReduceMean, {x}, {{"axes", Shape::from(axes)}, {"count", Shape{count}}, {"keep", int64_t{keep}}}, name);
}

Tensor sum_to(Tensor x, Shape shape, Name name) {
  if (x.shape() == shape) return x;
  // Gradient rules also sum values of 16 bits: in f32, then cast back.
  if (x.dtype() == DType::F16 || x.dtype() == DType::BF16)
    return cast(sum_to(cast(x, DType::F32), shape, name), x.dtype());
  Dims axes;
  const int lead = x.rank() - shape.rank();
  for (int i = 0; i < x.rank(); ++i)
    if (i < lead || !(x.dim(i) == shape[i - lead])) axes.push_back(i);
  return reshape(reduce_sum(x, axes, false, name), shape);
}

OpList reduce_ops() {
  return {&kReduceSum,     &kReduceMean,        &kReduceMax,  &kReduceMin,      &kReduceAny,
          &kDivideByCount, &kReduceExtremeGrad, &kReduceProd, &kReduceProdGrad, &kReduceAll};
}

}  // namespace plimsoll::ops
