// sparse_cross_entropy, cross_entropy: mean of -log softmax(logits) at a label, or weighted by targets. The gradient
// recomputes the softmax from the logits and may overwrite them. A label outside of the classes is reported and
// adds nothing.
#include <cmath>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/blocks.h"
#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "kernels/short_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

bool is_known(int32_t label, int64_t classes) { return label >= 0 && label < classes; }

// Sum over the rows [first, last) of log-sum-exp minus the logit of the label.
double sparse_loss(const float* x, const int32_t* labels, int64_t classes, int64_t first, int64_t last, FirstBad* bad) {
  double sum = 0;
  const auto add = [&](int64_t i, float all) {
    if (is_known(labels[i], classes))
      sum += all - x[i * classes + labels[i]];
    else
      bad->found(i);
  };
  if (classes > kShortRow) {
    for_row_groups(first, last, [&](int64_t i, auto group) HWY_ATTR {
      float all[group()];
      log_sum_exp_rows<group()>(x + i * classes, classes, all);
      for (int r = 0; r < group(); ++r) add(i + r, all[r]);
    });
    return sum;
  }
  for_short_rows<false>(x, classes, first, last, [&](ShortRows& group, int64_t at, int64_t rest) HWY_ATTR {
    hn::Store(log_sum_exp(group), FloatTag(), group.sum);
    for (int64_t i = 0; i < std::min(rest, ShortRows::lanes()); ++i) add(at + i, group.sum[i]);
  });
  return sum;
}

// targets . (log-sum-exp - x), which stays exact where one target is 1.
float weighted_loss(const float* x, const float* targets, int64_t classes) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Floats top = hn::Set(d, log_sum_exp(x, classes));
  Floats sum = hn::Zero(d);
  int64_t j = 0;
  for (; j + lanes <= classes; j += lanes)
    sum = hn::MulAdd(hn::LoadU(d, targets + j), hn::Sub(top, hn::LoadU(d, x + j)), sum);
  if (j < classes)
    sum = hn::MulAdd(load_some(d, targets + j, classes - j), hn::Sub(top, load_some(d, x + j, classes - j)), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

double dense_loss(const float* x, const float* targets, int64_t classes, int64_t first, int64_t last) {
  double sum = 0;
  for (int64_t i = first; i < last; ++i) sum += weighted_loss(x + i * classes, targets + i * classes, classes);
  return sum;
}

void sparse_grad(const float* x, const int32_t* labels, float* y, int64_t classes, float factor, int64_t first,
                 int64_t last, FirstBad* bad) {
  const auto subtract_label = [&](int64_t i) {
    if (is_known(labels[i], classes))
      y[i * classes + labels[i]] -= factor;
    else
      bad->found(i);
  };
  const auto scale_of = [&](int64_t i) { return is_known(labels[i], classes) ? factor : 0.0F; };
  if (classes > kShortRow) {
    for_row_groups(first, last, [&](int64_t i, auto group) HWY_ATTR {
      float scales[group()];
      for (int r = 0; r < group(); ++r) scales[r] = scale_of(i + r);
      softmax_rows_scaled<group()>(x + i * classes, y + i * classes, classes, scales);
      for (int r = 0; r < group(); ++r) subtract_label(i + r);
    });
    return;
  }
  const FloatTag d;
  for_short_rows<true>(x, classes, first, last, [&](ShortRows& group, int64_t at, int64_t rest) HWY_ATTR {
    const int64_t rows = std::min(rest, ShortRows::lanes());
    HWY_ALIGN float scales[hn::MaxLanes(FloatTag())] = {};
    for (int64_t i = 0; i < rows; ++i) scales[i] = scale_of(at + i);
    const Floats scale = hn::Div(hn::Load(d, scales), hn::Load(d, group.sum));
    group.write(y + at * classes, rest, classes, [&](Floats v) HWY_ATTR { return hn::Mul(v, scale); });
    for (int64_t i = 0; i < rows; ++i) subtract_label(at + i);
  });
}

void dense_grad(const float* x, const float* targets, float* y, int64_t classes, float factor, int64_t first,
                int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    const float* t = targets + i * classes;
    float* out = y + i * classes;
    float total = 0;
    for (int64_t j = 0; j < classes; ++j) total += t[j];
    const float scale = factor * total;
    softmax_rows_scaled<1>(x + i * classes, out, classes, &scale);
    for (int64_t j = 0; j < classes; ++j) out[j] -= factor * t[j];
  }
}

void targets_grad(const float* x, float* y, int64_t classes, float factor, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    const float top = log_sum_exp(x + i * classes, classes);
    for (int64_t j = i * classes; j < (i + 1) * classes; ++j) y[j] = factor * (top - x[j]);
  }
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(sparse_loss);
HWY_EXPORT(dense_loss);
HWY_EXPORT(sparse_grad);
HWY_EXPORT(dense_grad);
HWY_EXPORT(targets_grad);

int64_t grain_of(int64_t classes) { return 1 + 8192 / (classes + 1); }

void infer_loss(Infer& n) {
  n.expect_inputs(2, 2);
  const bool sparse = n.op == "sparse_cross_entropy";
  Shape wanted = n.in[0].shape;
  if (wanted.empty()) n.fail("logits must have a dimension of classes");
  if (sparse) wanted.erase(wanted.rank() - 1);
  if (!(n.in[1].shape == wanted))
    n.fail(fmt::format("logits are {}, so {} must be {}{} but are {}", to_string(n.in[0]),
                       sparse ? "labels" : "targets", sparse ? "i32" : "f32", to_string(wanted), to_string(n.in[1])));
  n.out = {{DType::F32, {}}};
}

// The mean divides by the rows of the whole batch, so that micro-batches add up to it.
int64_t rows_of_whole(const Facts& facts) { return facts.attrs.shape("rows")[0].at(facts.whole_batch); }

Prepared prepare_loss(const Facts& facts, bool sparse) {
  const int64_t classes = facts.in[0].dims.back();
  const int64_t rows = facts.in[0].count() / std::max<int64_t>(1, classes);
  const auto whole = static_cast<double>(rows_of_whole(facts));
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            FirstBad bad;
            const double sum = sum_in_blocks(rows, grain_of(classes), args.workspace, [&](int64_t first, int64_t last) {
              return sparse ? HWY_DYNAMIC_DISPATCH(sparse_loss)(x, args.input<int32_t>(1), classes, first, last, &bad)
                            : HWY_DYNAMIC_DISPATCH(dense_loss)(x, args.input<float>(1), classes, first, last);
            });
            if (sparse) bad.report(args, "label", 1, args.input<int32_t>(1), classes);
            auto* y = args.output<float>(0);
            *y = static_cast<float>(sum / whole) + (accumulate ? *y : 0.0F);
          }),
          .workspace_bytes = kBlockSumBytes};
}

// Inputs: logits, labels or targets, gradient of the loss.
void infer_grad(Infer& n) {
  n.expect_inputs(3, 3);
  n.out = {n.in[0]};
}

enum class GradOf { Sparse, Dense, Targets };

template <GradOf kOf>
Prepared prepare_grad(const Facts& facts) {
  const int64_t classes = facts.in[0].dims.back();
  const int64_t rows = facts.in[0].count() / std::max<int64_t>(1, classes);
  const auto whole = static_cast<double>(rows_of_whole(facts));
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* y = args.output<float>(0);
            const auto factor = static_cast<float>(*args.input<float>(2) / whole);
            FirstBad bad;
            parallel_for(rows, grain_of(classes), [&](int64_t first, int64_t last) {
              if constexpr (kOf == GradOf::Sparse)
                HWY_DYNAMIC_DISPATCH(sparse_grad)(x, args.input<int32_t>(1), y, classes, factor, first, last, &bad);
              else if constexpr (kOf == GradOf::Dense)
                HWY_DYNAMIC_DISPATCH(dense_grad)(x, args.input<float>(1), y, classes, factor, first, last);
              else
                HWY_DYNAMIC_DISPATCH(targets_grad)(x, y, classes, factor, first, last);
            });
            if constexpr (kOf == GradOf::Sparse) bad.report(args, "label", 1, args.input<int32_t>(1), classes);
          })};
}

const Op kSparseGrad{.name = "sparse_cross_entropy_grad",
                     .infer = infer_grad,
                     .types = {DType::F32, DType::I32, DType::F32},
                     .prepare = prepare_grad<GradOf::Sparse>,
                     .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1}};

const Op kDenseGrad{.name = "cross_entropy_grad",
                    .infer = infer_grad,
                    .prepare = prepare_grad<GradOf::Dense>,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1}};

const Op kTargetsGrad{.name = "cross_entropy_targets_grad",
                      .infer = infer_grad,
                      .prepare = prepare_grad<GradOf::Targets>,
                      .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1}};

void grad_sparse(Backward& b) {
  if (b.wanted[0]) b.give(0, apply(kSparseGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
}

void grad_dense(Backward& b) {
  if (b.wanted[0]) b.give(0, apply(kDenseGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
  if (b.wanted[1]) b.give(1, apply(kTargetsGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
}

std::vector<Sample> samples_sparse() {
  const auto of = [](const char* name, Shape rows, int64_t classes) {
    return Sample{name, [=](SampleBuilder& s) {
                    Shape shape = rows;
                    shape.insert(shape.rank(), classes);
                    return std::vector{
                        sparse_cross_entropy(s.input(shape, -4, 4), s.integers(rows, 0, static_cast<int>(classes)))};
                  }};
  };
  return {of("ten classes", {Dim::batch()}, 10),
          of("sequence, 19 classes", {Dim::batch(), 2}, 19),
          of("one class", {Dim::batch()}, 1),
          of("three classes", {Dim::batch(), 5}, 3),
          of("groups and a rest", {Dim::batch(), 37}, 10),
          of("long rows", {Dim::batch()}, 75)};
}

std::vector<Sample> samples_dense() {
  return {{"targets that do not sum to one", [](SampleBuilder& s) {
             return std::vector{cross_entropy(s.input({Dim::batch(), 11}, -4, 4), s.input({Dim::batch(), 11}, 0, 0.3))};
           }}};
}

const Op kSparse{.name = "sparse_cross_entropy",
                 .storable = true,
                 .infer = infer_loss,
                 .types = {DType::F32, DType::I32},
                 .grad = grad_sparse,
                 .prepare = [](const Facts& facts) { return prepare_loss(facts, true); },
                 .samples = samples_sparse,
                 .traits = {.batch = BatchRule::Sums, .recomputable = true}};

const Op kDense{.name = "cross_entropy",
                .storable = true,
                .infer = infer_loss,
                .grad = grad_dense,
                .prepare = [](const Facts& facts) { return prepare_loss(facts, false); },
                .samples = samples_dense,
                .traits = {.batch = BatchRule::Sums, .recomputable = true}};

Attrs rows_attr(Tensor logits) {
  Shape shape = logits.shape();
  if (!shape.empty()) shape.erase(shape.rank() - 1);
  return {{"rows", Shape{element_count(shape)}}};
}

}  // namespace

Tensor sparse_cross_entropy(Tensor logits, Tensor labels, Name name) {
  return apply(kSparse, {logits, labels}, rows_attr(logits), name);
}

Tensor cross_entropy(Tensor logits, Tensor targets, Name name) {
  return apply(kDense, {logits, targets}, rows_attr(logits), name);
}

OpList cross_entropy_ops() { return {&kSparse, &kSparseGrad, &kDense, &kDenseGrad, &kTargetsGrad}; }

}  // namespace plimsoll::ops
#endif
