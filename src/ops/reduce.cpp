// reduce_sum, reduce_mean, reduce_max, reduce_min over any axes.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/parallel.h"
#include "ops/sample.h"

namespace plimsoll {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_float(0);
  const Dims axes = n.attrs.dims("axes");
  const bool keep = n.attrs.i("keep") != 0;
  Shape out;
  for (int i = 0; i < n.in[0].shape.rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced) out.push_back(n.in[0].shape[i]);
    if (reduced && keep) out.push_back(1);
  }
  n.out = {{DType::F32, out}};
}

void grad(Backward& b) {
  // Put the reduced dimensions back as ones, then repeat.
  Shape kept = b.x[0].shape();
  for (const int64_t axis : b.attrs.dims("axes")) kept[static_cast<int>(axis)] = 1;
  b.give(0, broadcast_to(reshape(b.dy[0], kept), b.x[0].shape()));
}

Prepared prepare(const Facts& facts) {
  const Dims dims = facts.in[0].dims;
  const Dims axes = facts.attrs.dims("axes");
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* y = args.output<float>(0);
            Dims out_stride = Dims::filled(dims.rank(), 0);
            int64_t outputs = 1;
            for (int i = dims.rank() - 1; i >= 0; --i) {
              if (std::find(axes.begin(), axes.end(), i) != axes.end()) continue;
              out_stride[i] = outputs;
              outputs *= dims[i];
            }
            if (!accumulate) std::fill(y, y + outputs, 0.0F);
            const int64_t count = element_count(dims);
            for (int64_t i = 0; i < count; ++i) {
              int64_t rest = i;
              int64_t at = 0;
              for (int d = dims.rank() - 1; d >= 0; --d) {
                at += rest % dims[d] * out_stride[d];
                rest /= dims[d];
              }
              y[at] += x[i];
            }
          })};
}

BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  for (const int64_t axis : attrs.dims("axes"))
    if (in[0].shape[static_cast<int>(axis)].is_batch()) return BatchRule::Sums;
  return BatchRule::Rows;
}

std::vector<Sample> samples() {
  return {{"last axis",
           [](SampleBuilder& s) {
             return std::vector{reduce_sum(s.input({Dim::batch(), 3, 4}), {2})};
           }},
          {"batch", [](SampleBuilder& s) {
             return std::vector{reduce_sum(s.input({Dim::batch(), 3}), {0})};
           }}};
}

const Op kReduceSum{.name = "reduce_sum",
                    .infer = infer,
                    .grad = grad,
                    .prepare = prepare,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true},
                    .batch_rule = batch_rule,
                    .onnx = "ReduceSum"};

}  // namespace

Tensor reduce_sum(Tensor x, Dims axes, bool keep, Name name) {
  if (axes.empty())
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  for (int64_t& axis : axes)
    if (axis < 0) axis += x.rank();
  return x.graph().add(kReduceSum, {x}, {{"axes", Shape::from(axes)}, {"keep", int64_t{keep}}}, name);
}

Tensor sum_to(Tensor x, Shape shape, Name name) {
  if (x.shape() == shape) return x;
  Dims axes;
  const int lead = x.rank() - shape.rank();
  for (int i = 0; i < x.rank(); ++i)
    if (i < lead || !(x.dim(i) == shape[i - lead])) axes.push_back(i);
  return reshape(reduce_sum(x, axes, false, name), shape);
}

OpList reduce_ops() { return {&kReduceSum}; }

}  // namespace plimsoll
