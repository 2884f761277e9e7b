// concat: tensors side by side along one axis.
#include <fmt/format.h>

#include "kernels/joined.h"
#include "kernels/pixel_order.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 32767);
  const auto axis = static_cast<int>(n.attrs.i("axis"));
  Shape out = n.in[0].shape;
  if (axis < 0 || axis >= out.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  int64_t total = 0;
  for (const TensorType& part : n.in) {
    bool matches = part.dtype == n.in[0].dtype && part.shape.rank() == out.rank();
    for (int i = 0; matches && i < out.rank(); ++i)
      matches = i == axis ? part.shape[i].is_batch() == out[i].is_batch() : part.shape[i] == out[i];
    if (!matches)
      n.fail(fmt::format("{} and {} differ in more than axis {}", to_string(n.in[0]), to_string(part), axis));
    if (n.in.size() > 1 && part.shape[axis].is_batch())
      n.fail(fmt::format("axis {} of {} is the batch: samples can't be joined", axis, to_string(part)));
    total += part.shape[axis].count();
  }
  if (n.in.size() > 1) out[axis] = total;
  n.out = {{n.in[0].dtype, out}};
}

void grad(Backward& b) {
  const auto axis = static_cast<int>(b.attrs.i("axis"));
  bool all_wanted = true;
  Dims sizes;
  for (size_t i = 0; i < b.x.size(); ++i) {
    all_wanted = all_wanted && b.wanted[i];
    if (b.x.size() <= kMaxRank) sizes.push_back(b.x[i].dim(axis).count());
  }
  if (b.x.size() == 1) return b.give(0, b.dy[0]);
  // One pass over the gradient, unless only some are wanted or there are more than a split has outputs.
  if (all_wanted && b.x.size() <= kMaxRank) {
    const std::vector<Tensor> parts = split(b.dy[0], sizes, axis);
    for (size_t i = 0; i < parts.size(); ++i) b.give(i, parts[i]);
    return;
  }
  int64_t first = 0;
  for (size_t i = 0; i < b.x.size(); ++i) {
    const int64_t count = b.x[i].dim(axis).count();
    if (b.wanted[i]) b.give(i, slice(b.dy[0], axis, first, count));
    first += count;
  }
}

// Images whose channels lie side by side (pixel_order.h) keep that order.
Prepared prepare_by_pixels(const Facts& facts) {
  const DType dtype = facts.in[0].dtype;
  const int64_t axis = axis_by_pixels(facts.attrs.i("axis"));
  const Dims whole = pixels_first(facts.out[0].dims);
  Prepared prepared;
  std::vector<StridedCopy> copies;
  int64_t first = 0;
  for (const ConcreteType& part : facts.in) {
    const Dims dims = pixels_first(part.dims);
    copies.push_back(part_to_whole(size_of(dtype), dims, whole, axis, first));
    first += dims[static_cast<int>(axis)];
    prepared.in.push_back(by_pixels(dtype, part.dims));
  }
  prepared.out = {by_pixels(dtype, facts.out[0].dims)};
  prepared.kernel = make_kernel([copies = std::move(copies)](const Args& args) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(args.in[i], args.out[0]);
  });
  return prepared;
}

Prepared prepare(const Facts& facts) {
  const int64_t axis = facts.attrs.i("axis");
  const DType dtype = facts.in[0].dtype;
  // The largest input decides the order: reordering smaller ones is cheaper.
  const ConcreteType* largest = &facts.in[0];
  for (const ConcreteType& part : facts.in)
    if (part.count() > largest->count()) largest = &part;
  if (!largest->layout.is_plain() && largest->dtype != DType::I64 && lies_by_pixels(*largest))
    return prepare_by_pixels(facts);
  const ImageOrder order = joined_order(*largest, facts.out[0].dims, facts.in, axis);
  Prepared prepared;
  std::vector<StridedCopy> copies;
  int64_t first = 0;
  for (const ConcreteType& part : facts.in) {
    copies.push_back(part_to_whole(size_of(dtype), part.dims, facts.out[0].dims, axis, first));
    first += part.dims[static_cast<int>(axis)];
    if (order.is_known()) prepared.in.push_back(order.layout(dtype, part.dims));
  }
  if (order.is_known()) prepared.out = {order.layout(dtype, facts.out[0].dims)};
  prepared.kernel = make_kernel([copies = std::move(copies)](const Args& args) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(args.in[i], args.out[0]);
  });
  return prepared;
}

std::vector<Sample> samples() {
  return {{"channels",
           [](SampleBuilder& s) {
             return std::vector{concat({s.input({Dim::batch(), 2, 3, 3}), s.input({Dim::batch(), 5, 3, 3})}, 1)};
           }},
          {"last axis",
           [](SampleBuilder& s) {
             return std::vector{
                 concat({s.input({Dim::batch(), 3}), s.input({Dim::batch(), 1}), s.input({Dim::batch(), 4})}, -1)};
           }},
          {"rows",
           [](SampleBuilder& s) {
             return std::vector{concat({s.input({2, 5}), s.input({3, 5})}, 0)};
           }},
          {"one part",
           [](SampleBuilder& s) {
             return std::vector{concat({s.input({Dim::batch(), 3})}, 0)};
           }},
          {"blocked channels",  // convolutions leave their results in blocks
           [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 8, 2, 2});
             return std::vector{concat({conv2d(x, s.input({8, 8, 1, 1})), conv2d(x, s.input({16, 8, 1, 1}))}, 1)};
           }},
          {"nine parts",
           [](SampleBuilder& s) {
             std::vector<Tensor> parts;
             for (int i = 0; i < 9; ++i) parts.push_back(s.input({Dim::batch(), 1 + i % 3}));
             return std::vector{concat(parts, 1)};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{concat(
                 {s.integers({Dim::batch(), 3}, 0, 100, DType::I64), s.integers({Dim::batch(), 2}, 0, 100, DType::I64)},
                 1)};
           },
           1e-4, false}};
}

const Op kConcat{.name = "concat",
                 .storable = true,
                 .infer = infer,
                 .types = {kAnyType},
                 .grad = grad,
                 .prepare = prepare,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .onnx = "Concat"};

}  // namespace

Tensor concat(std::vector<Tensor> parts, int axis, Name name) {
  if (parts.empty()) throw Error(fmt::format("concat '{}': there is nothing to join", name));
  const int at = resolve_axis("concat", name, axis, parts[0].type());
  return apply(kConcat, parts, {{"axis", int64_t{at}}}, name);
}

OpList concat_ops() { return {&kConcat}; }

}  // namespace plimsoll::ops
