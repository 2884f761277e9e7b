// split: a tensor cut into parts along one axis.
#include <numeric>

#include <fmt/format.h>

#include "kernels/joined.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const auto axis = static_cast<int>(n.attrs.i("axis"));
  const Dims sizes = n.attrs.dims("sizes");
  const Shape& in = n.in[0].shape;
  if (axis < 0 || axis >= in.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (in[axis].is_batch() || total != in[axis].count())
    n.fail(fmt::format("sizes {} do not add up to axis {} of {}", to_string(sizes), axis, to_string(n.in[0])));
  for (const int64_t size : sizes) {
    Shape part = in;
    part[axis] = size;
    n.out.push_back({n.in[0].dtype, part});
  }
}

void grad(Backward& b) {
  const auto axis = static_cast<int>(b.attrs.i("axis"));
  std::vector<Tensor> parts;
  for (size_t i = 0; i < b.dy.size(); ++i)
    parts.push_back(b.dy[i].is_set() ? b.dy[i] : broadcast_to(b.x[0].graph().scalar(0), b.y[i].shape()));
  b.give(0, concat(parts, axis));
}

Prepared prepare(const Facts& facts) {
  const int64_t axis = facts.attrs.i("axis");
  const DType dtype = facts.in[0].dtype;
  const Dims& whole = facts.in[0].dims;
  const ImageOrder order = joined_order(facts.in[0], whole, facts.out, axis);
  Prepared prepared;
  std::vector<StridedCopy> copies;
  int64_t first = 0;
  for (const ConcreteType& part : facts.out) {
    copies.push_back(whole_to_part(size_of(dtype), part.dims, whole, axis, first));
    first += part.dims[static_cast<int>(axis)];
    if (order.is_known()) prepared.out.push_back(order.layout(dtype, part.dims));
  }
  if (order.is_known()) prepared.in = {facts.in[0].layout};
  prepared.kernel = make_kernel([copies = std::move(copies)](const Args& args) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(args.in[0], args.out[i]);
  });
  return prepared;
}

std::vector<Sample> samples() {
  return {{"channels",
           [](SampleBuilder& s) {
             return split(s.input({Dim::batch(), 7, 3, 3}), {2, 5}, 1);
           }},
          {"queries, keys, values",
           [](SampleBuilder& s) {
             return split(s.input({Dim::batch(), 5, 9}), {3, 3, 3}, -1);
           }},
          {"rows",
           [](SampleBuilder& s) {
             return split(s.input({4, 5}), {1, 3}, 0);
           }},
          {"blocked channels",  // convolutions leave their results in blocks
           [](SampleBuilder& s) {
             return split(conv2d(s.input({Dim::batch(), 8, 2, 2}), s.input({24, 8, 1, 1})), {8, 16}, 1);
           }},
          {"one part unused", [](SampleBuilder& s) {
             return std::vector{split(s.input({Dim::batch(), 7}), {2, 4, 1}, 1)[1]};
           }}};
}

const Op kSplit{.name = "split",
                .storable = true,
                .infer = infer,
                .types = {kAnyType},
                .grad = grad,
                .prepare = prepare,
                .samples = samples,
                .traits = {.batch = BatchRule::Rows, .recomputable = true},
                .onnx = "Split"};

}  // namespace

std::vector<Tensor> split(Tensor x, Dims sizes, int axis, Name name) {
  const int at = resolve_axis("split", name, axis, x.type());
  const Outputs parts = apply(kSplit, {x}, {{"axis", int64_t{at}}, {"sizes", Shape::from(sizes)}}, name);
  std::vector<Tensor> result;
  for (int i = 0; i < parts.size(); ++i) result.push_back(parts[i]);
  return result;
}

OpList split_ops() { return {&kSplit}; }

}  // namespace plimsoll::ops
