// transpose: the dimensions in another order.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/strided_copy.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const Dims order = n.attrs.dims("order");
  const Shape& in = n.in[0].shape;
  Shape out;
  bool is_order = order.rank() == in.rank();
  for (int i = 0; is_order && i < in.rank(); ++i) is_order = std::count(order.begin(), order.end(), i) == 1;
  if (!is_order)
    n.fail(fmt::format("order {} must name each of the {} dimensions of {} once", to_string(order), in.rank(),
                       to_string(n.in[0])));
  for (const int64_t axis : order) out.push_back(in[static_cast<int>(axis)]);
  n.out = {{n.in[0].dtype, out}};
}

void grad(Backward& b) {
  const Dims order = b.attrs.dims("order");
  Dims inverse = order;
  for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
  b.give(0, transpose(b.dy[0], inverse));
}

Prepared prepare(const Facts& facts) {
  const Dims order = facts.attrs.dims("order");
  const Dims from = strides_of(facts.in[0].dims);
  const Dims to = strides_of(facts.out[0].dims);
  StridedCopy copy(size_of(facts.in[0].dtype));
  for (int i = 0; i < order.rank(); ++i) copy.add(facts.out[0].dims[i], from[static_cast<int>(order[i])], to[i]);
  copy.finish();
  return {.kernel = make_kernel([=](const Args& args) { copy.run(args.in[0], args.out[0]); })};
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, Shape shape, Dims order) {
    return Sample{name, [=](SampleBuilder& s) { return std::vector{transpose(s.input(shape), order)}; }};
  };
  return {sample("matrix", {Dim::batch(), 7}, {1, 0}),
          sample("heads apart", {Dim::batch(), 3, 2, 5}, {0, 2, 1, 3}),
          sample("last two", {Dim::batch(), 5, 3}, {0, 2, 1}),
          sample("pairs", {Dim::batch(), 5, 3, 2}, {0, 2, 1, 3}),
          sample("a tile and more", {17, 19}, {1, 0}),
          sample("more than a band", {66, 21}, {1, 0}),
          sample("reversed", {Dim::batch(), 2, 3, 4}, {3, 2, 1, 0}),
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{transpose(s.integers({Dim::batch(), 5}, 0, 100), {1, 0}),
                                transpose(s.integers({Dim::batch(), 3, 7}, 0, 100, DType::U8), {2, 0, 1})};
           },
           1e-4, false}};
}

const Op kTranspose{.name = "transpose",
                    .storable = true,
                    .infer = infer,
                    .types = {kAnyType},
                    .grad = grad,
                    .prepare = prepare,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true},
                    .onnx = "Transpose"};

}  // namespace

Tensor transpose(Tensor x, Dims order, Name name) {
  for (int64_t& axis : order)
    if (axis < 0) axis = std::max<int64_t>(0, axis + x.rank());
  return apply(kTranspose, {x}, {{"order", Shape::from(order)}}, name);
}

OpList transpose_ops() { return {&kTranspose}; }

}  // namespace plimsoll::ops
