// sparse_cross_entropy, cross_entropy: mean of -log softmax(logits) at a label, or weighted by targets. The gradient
// makes the softmax again from the logits and may be written over them. A label outside of the classes gives NaN.
#include <cmath>

#include <fmt/format.h>

#include "ops/blocks.h"
#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "ops/short_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {
namespace {

// Sum over the rows [first, last) of log-sum-exp minus the logit of the label.
double sparse_loss(const float* x, const int32_t* labels, int64_t classes, int64_t first, int64_t last) {
  const FloatTag d;
  const int64_t lanes = classes <= kShortRow ? ShortRows::lanes() : 1;
  HWY_ALIGN float all[hn::MaxLanes(FloatTag())];
  ShortRows group;
  double sum = 0;
  for (int64_t i = first; i < last; i += lanes) {
    if (classes <= kShortRow) {
      group.read(x + i * classes, last - i, classes);
      hn::Store(log_sum_exp(group, classes), d, all);
    } else {
      all[0] = log_sum_exp(x + i * classes, classes);
    }
    for (int64_t j = i; j < std::min(i + lanes, last); ++j) {
      const bool known = labels[j] >= 0 && labels[j] < classes;
      sum += known ? all[j - i] - x[j * classes + labels[j]] : NAN;
    }
  }
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
                 int64_t last) {
  const FloatTag d;
  const int64_t lanes = classes <= kShortRow ? ShortRows::lanes() : 1;
  HWY_ALIGN float scales[hn::MaxLanes(FloatTag())] = {};
  ShortRows group;
  for (int64_t i = first; i < last; i += lanes) {
    const int64_t rows = std::min(lanes, last - i);
    const auto known = [&](int64_t j) { return labels[i + j] >= 0 && labels[i + j] < classes; };
    for (int64_t j = 0; j < rows; ++j) scales[j] = known(j) ? factor : NAN;
    if (classes <= kShortRow) {
      group.read(x + i * classes, rows, classes);
      const Floats scale = hn::Div(hn::Load(d, scales), exps_of<true>(group, classes).sum);
      group.write(y + i * classes, rows, classes, [&](Floats v) HWY_ATTR { return hn::Mul(v, scale); });
    } else {
      scaled_softmax(x + i * classes, y + i * classes, classes, scales[0]);
    }
    for (int64_t j = 0; j < rows; ++j)
      if (known(j)) y[(i + j) * classes + labels[i + j]] -= factor;
  }
}

void dense_grad(const float* x, const float* targets, float* y, int64_t classes, float factor, int64_t first,
                int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    const float* t = targets + i * classes;
    float* out = y + i * classes;
    float total = 0;
    for (int64_t j = 0; j < classes; ++j) total += t[j];
    scaled_softmax(x + i * classes, out, classes, factor * total);
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
}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(sparse_loss);
HWY_EXPORT(dense_loss);
HWY_EXPORT(sparse_grad);
HWY_EXPORT(dense_grad);
HWY_EXPORT(targets_grad);

int64_t grain_of(int64_t classes) { return 1 + 8192 / (classes + 1); }

void infer_loss(Infer& n) {
  n.expect_inputs(2, 2);
  n.expect_float(0);
  const bool sparse = n.op == "sparse_cross_entropy";
  Shape wanted = n.in[0].shape;
  if (wanted.empty()) n.fail("logits must have a dimension of classes");
  if (sparse) wanted.erase(wanted.rank() - 1);
  if (n.in[1].dtype != (sparse ? DType::I32 : DType::F32) || !(n.in[1].shape == wanted))
    n.fail(fmt::format("logits are {}, so {} must be {}{} but are {}", to_string(n.in[0]),
                       sparse ? "labels" : "targets", sparse ? "i32" : "f32", to_string(wanted), to_string(n.in[1])));
  n.out = {{DType::F32, {}}};
}

// The mean divides by the rows of the whole batch, so that parts of it add up.
int64_t rows_of_whole(const Facts& facts) { return facts.attrs.shape("rows")[0].at(facts.whole_batch); }

Prepared prepare_loss(const Facts& facts, bool sparse) {
  const int64_t classes = facts.in[0].dims.back();
  const int64_t rows = facts.in[0].count() / std::max<int64_t>(1, classes);
  const auto whole = static_cast<double>(rows_of_whole(facts));
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            const double sum = sum_in_blocks(rows, grain_of(classes), args.scratch, [&](int64_t first, int64_t last) {
              return sparse ? HWY_DYNAMIC_DISPATCH(sparse_loss)(x, args.input<int32_t>(1), classes, first, last)
                            : HWY_DYNAMIC_DISPATCH(dense_loss)(x, args.input<float>(1), classes, first, last);
            });
            auto* y = args.output<float>(0);
            *y = static_cast<float>(sum / whole) + (accumulate ? *y : 0.0F);
          }),
          .scratch_bytes = kBlockSumBytes};
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
            parallel_for(rows, grain_of(classes), [&](int64_t first, int64_t last) {
              if constexpr (kOf == GradOf::Sparse)
                HWY_DYNAMIC_DISPATCH(sparse_grad)(x, args.input<int32_t>(1), y, classes, factor, first, last);
              else if constexpr (kOf == GradOf::Dense)
                HWY_DYNAMIC_DISPATCH(dense_grad)(x, args.input<float>(1), y, classes, factor, first, last);
              else
                HWY_DYNAMIC_DISPATCH(targets_grad)(x, y, classes, factor, first, last);
            });
          })};
}

const Op kSparseGrad{.name = "sparse_cross_entropy_grad",
                     .infer = infer_grad,
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
  if (b.wanted[0]) b.give(0, b.dy[0].graph().add(kSparseGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
}

void grad_dense(Backward& b) {
  Graph& graph = b.dy[0].graph();
  if (b.wanted[0]) b.give(0, graph.add(kDenseGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
  if (b.wanted[1]) b.give(1, graph.add(kTargetsGrad, {b.x[0], b.x[1], b.dy[0]}, b.attrs));
}

std::vector<Sample> samples_sparse() {
  return {{"ten classes",
           [](SampleBuilder& s) {
             return std::vector{
                 sparse_cross_entropy(s.input({Dim::batch(), 10}, -4, 4), s.integers({Dim::batch()}, 0, 10))};
           }},
          {"sequence, 19 classes", [](SampleBuilder& s) {
             return std::vector{
                 sparse_cross_entropy(s.input({Dim::batch(), 2, 19}, -4, 4), s.integers({Dim::batch(), 2}, 0, 19))};
           }}};
}

std::vector<Sample> samples_dense() {
  return {{"targets that do not sum to one", [](SampleBuilder& s) {
             return std::vector{cross_entropy(s.input({Dim::batch(), 11}, -4, 4), s.input({Dim::batch(), 11}, 0, 0.3))};
           }}};
}

const Op kSparse{.name = "sparse_cross_entropy",
                 .infer = infer_loss,
                 .grad = grad_sparse,
                 .prepare = [](const Facts& facts) { return prepare_loss(facts, true); },
                 .samples = samples_sparse,
                 .traits = {.batch = BatchRule::Sums, .recomputable = true}};

const Op kDense{.name = "cross_entropy",
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
  return logits.graph().add(kSparse, {logits, labels}, rows_attr(logits), name);
}

Tensor cross_entropy(Tensor logits, Tensor targets, Name name) {
  return logits.graph().add(kDense, {logits, targets}, rows_attr(logits), name);
}

OpList cross_entropy_ops() { return {&kSparse, &kSparseGrad, &kDense, &kDenseGrad, &kTargetsGrad}; }

}  // namespace plimsoll
#endif
