// slice: a range along one axis, every step-th element; its gradient writes into zeros.
#include <cstring>

#include <fmt/format.h>

#include "kernels/joined.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const auto axis = static_cast<int>(n.attrs.i("axis"));
  const int64_t first = n.attrs.i("first");
  const int64_t count = n.attrs.i("count");
  const int64_t step = n.attrs.i("step", 1);
  Shape out = n.in[0].shape;
  if (axis < 0 || axis >= out.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  if (out[axis].is_batch()) n.fail(fmt::format("axis {} of {} is the batch", axis, to_string(n.in[0])));
  if (first < 0 || count < 1 || step < 1 || first + (count - 1) * step >= out[axis].fixed())
    n.fail(fmt::format("{} elements from {} in steps of {} are not within axis {} of {}", count, first, step, axis,
                       to_string(n.in[0])));
  out[axis] = count;
  n.out = {{n.in[0].dtype, out}};
}

void infer_grad(Infer& n) {
  n.expect_inputs(1, 1);
  const auto axis = static_cast<int>(n.attrs.i("axis"));
  Shape out = n.in[0].shape;
  out[axis] = n.attrs.i("size");
  n.out = {{n.in[0].dtype, out}};
}

// With step 1, blocks of channels stay whole if the range starts at the start of a block.
ImageOrder order_of(const Facts& facts, const ConcreteType& part, const Dims& whole) {
  const int64_t axis = facts.attrs.i("axis");
  const ImageOrder order = joined_order(facts.in[0], whole, {&part, 1}, axis);
  if (!order.is_known() || axis == 0) return order;
  return facts.attrs.i("step", 1) == 1 && facts.attrs.i("first") % order.block() == 0 ? order : ImageOrder();
}

Prepared prepare(const Facts& facts) {
  const DType dtype = facts.in[0].dtype;
  const StridedCopy copy = whole_to_part(size_of(dtype), facts.out[0].dims, facts.in[0].dims, facts.attrs.i("axis"),
                                         facts.attrs.i("first"), facts.attrs.i("step", 1));
  Prepared prepared{.kernel = make_kernel([=](const Args& args) { copy.run(args.in[0], args.out[0]); })};
  if (const ImageOrder order = order_of(facts, facts.out[0], facts.in[0].dims); order.is_known()) {
    prepared.in = {facts.in[0].layout};
    prepared.out = {order.layout(dtype, facts.out[0].dims)};
  }
  return prepared;
}

Prepared prepare_grad(const Facts& facts) {
  const DType dtype = facts.in[0].dtype;
  const StridedCopy copy = part_to_whole(size_of(dtype), facts.in[0].dims, facts.out[0].dims, facts.attrs.i("axis"),
                                         facts.attrs.i("first"), facts.attrs.i("step", 1));
  const Bytes bytes = facts.out[0].count() * size_of(dtype);
  Prepared prepared{.kernel = make_kernel([=](const Args& args) {
                      parallel_for(bytes, 65536, [&](int64_t first, int64_t last) {
                        std::memset(args.output<std::byte>(0) + first, 0, static_cast<size_t>(last - first));
                      });
                      copy.run(args.in[0], args.out[0]);
                    })};
  if (const ImageOrder order = order_of(facts, facts.in[0], facts.out[0].dims); order.is_known()) {
    prepared.in = {facts.in[0].layout};
    prepared.out = {order.layout(dtype, facts.out[0].dims)};
  }
  return prepared;
}

const Op kSliceGrad{.name = "slice_grad",
                    .infer = infer_grad,
                    .types = {kAnyType},
                    .prepare = prepare_grad,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true}};

void grad(Backward& b) {
  Attrs attrs = b.attrs;
  attrs.set("size", b.x[0].dim(static_cast<int>(b.attrs.i("axis"))).fixed());
  b.give(0, apply(kSliceGrad, {b.dy[0]}, attrs));
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, Shape shape, int axis, int64_t first, int64_t count, int64_t step) {
    return Sample{name, [=](SampleBuilder& s) { return std::vector{slice(s.input(shape), axis, first, count, step)}; }};
  };
  return {sample("first token", {Dim::batch(), 5, 3}, 1, 0, 1, 1),
          sample("columns", {Dim::batch(), 11}, -1, 2, 7, 1),
          sample("steps", {Dim::batch(), 11}, 1, 1, 4, 3),
          sample("every second row", {7, 5}, 0, 0, 4, 2),
          sample("channels", {Dim::batch(), 6, 3, 3}, 1, 2, 3, 1),
          {"blocked channels",  // convolutions leave their results in blocks
           [](SampleBuilder& s) {
             return std::vector{slice(conv2d(s.input({Dim::batch(), 8, 2, 2}), s.input({16, 8, 1, 1})), 1, 8, 8)};
           }}};
}

const Op kSlice{.name = "slice",
                .storable = true,
                .infer = infer,
                .types = {kAnyType},
                .grad = grad,
                .prepare = prepare,
                .samples = samples,
                .traits = {.batch = BatchRule::Rows, .recomputable = true},
                .onnx = "Slice"};

}  // namespace

Tensor slice(Tensor x, int axis, int64_t first, int64_t count, int64_t step, Name name) {
  const int at = resolve_axis("slice", name, axis, x.type());
  const Dim size = x.dim(at);
  if (first < 0 && !size.is_batch()) first += size.fixed();
  Attrs attrs{{"axis", int64_t{at}}, {"first", first}, {"count", count}};
  if (step != 1) attrs.set("step", step);
  return apply(kSlice, {x}, attrs, name);
}

OpList slice_ops() { return {&kSlice, &kSliceGrad}; }

}  // namespace plimsoll::ops
