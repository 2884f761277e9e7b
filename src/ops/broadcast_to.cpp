// broadcast_to: repeat a tensor along dimensions of size one.
#include <fmt/format.h>

#include "graph/shape.h"
#include "kernels/kernel.h"
#include "kernels/strided_copy.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const Shape shape = n.attrs.shape("shape");
  bool fits = n.in[0].shape.rank() <= shape.rank();
  try {
    fits = fits && broadcast(n.in[0].shape, shape) == shape;
  } catch (const Error&) {
    fits = false;
  }
  if (!fits) n.fail(fmt::format("{} does not broadcast to {}", to_string(n.in[0]), to_string(shape)));
  n.out = {{n.in[0].dtype, shape}};
}

void grad(Backward& b) { b.give(0, sum_to(b.dy[0], b.x[0].shape())); }

Prepared prepare(const Facts& facts) {
  const Dims& from = facts.in[0].dims;
  const Dims& to = facts.out[0].dims;
  const Dims from_strides = strides_of(from);
  const Dims to_strides = strides_of(to);
  const int lead = to.rank() - from.rank();
  StridedCopy copy(size_of(facts.in[0].dtype));
  for (int i = 0; i < to.rank(); ++i) {
    const bool repeats = i < lead || (from[i - lead] == 1 && to[i] != 1);
    copy.add(to[i], repeats ? 0 : from_strides[i - lead], to_strides[i]);
  }
  copy.finish();
  return {.kernel = make_kernel([=](const Args& args) { copy.run(args.in[0], args.out[0]); })};
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, Shape from, Shape to) {
    return Sample{name, [=](SampleBuilder& s) { return std::vector{broadcast_to(s.input(from), to)}; }};
  };
  return {sample("rows", {1, 4}, {Dim::batch(), 3, 4}), sample("columns", {Dim::batch(), 3, 1}, {Dim::batch(), 3, 7}),
          sample("channels", {5, 1, 1}, {Dim::batch(), 5, 3, 3}), sample("one number", {}, {Dim::batch(), 11}),
          sample("outer", {Dim::batch(), 1, 3}, {Dim::batch(), 5, 3})};
}

const Op kBroadcastTo{.name = "broadcast_to",
                      .storable = true,
                      .infer = infer,
                      .types = {kAnyType},
                      .grad = grad,
                      .prepare = prepare,
                      .samples = samples,
                      .traits = {.batch = BatchRule::Rows, .recomputable = true},
                      .onnx = "Expand"};

}  // namespace

Tensor broadcast_to(Tensor x, Shape shape, Name name) {
  if (x.shape() == shape) return x;
  return apply(kBroadcastTo, {x}, {{"shape", shape}}, name);
}

OpList broadcast_to_ops() { return {&kBroadcastTo}; }

}  // namespace plimsoll::ops
