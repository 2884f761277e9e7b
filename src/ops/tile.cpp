// tile: a tensor repeated along each axis; its gradient sums over the repeats.
#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/strided_copy.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const Dims times = n.attrs.dims("times");
  Shape out = n.in[0].shape;
  if (times.rank() != out.rank())
    n.fail(fmt::format("{} needs {} repeats but has {}", to_string(n.in[0]), out.rank(), to_string(times)));
  for (int i = 0; i < out.rank(); ++i) {
    if (times[i] < 1 || (times[i] > 1 && out[i].is_batch()))
      n.fail(fmt::format("axis {} of {} can't be repeated {} times", i, to_string(n.in[0]), times[i]));
    if (times[i] > 1) out[i] = out[i] * times[i];
  }
  n.out = {{n.in[0].dtype, out}};
}

// [a, b] repeated [2, 3] times has the gradient [2a, 3b]: as [2, a, 3, b], summed over the repeats.
void grad(Backward& b) {
  const Dims times = b.attrs.dims("times");
  Shape apart;
  Dims repeats;
  for (int i = 0; i < times.rank(); ++i) {
    if (times[i] > 1) {
      repeats.push_back(apart.rank());
      apart.push_back(times[i]);
    }
    apart.push_back(b.x[0].dim(i));
  }
  b.give(0, repeats.empty() ? b.dy[0] : reduce_sum(reshape(b.dy[0], apart), repeats));
}

Prepared prepare(const Facts& facts) {
  const Dims times = facts.attrs.dims("times");
  const Dims& dims = facts.in[0].dims;
  const Dims from = strides_of(dims);
  const Dims to = strides_of(facts.out[0].dims);
  StridedCopy copy(size_of(facts.in[0].dtype));
  for (int i = 0; i < dims.rank(); ++i) {
    copy.add(times[i], 0, to[i] * dims[i]);
    copy.add(dims[i], from[i], to[i]);
  }
  copy.finish();
  return {.kernel = make_kernel([=](const Args& args) { copy.run(args.in[0], args.out[0]); })};
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, Shape shape, Dims times) {
    return Sample{name, [=](SampleBuilder& s) { return std::vector{tile(s.input(shape), times)}; }};
  };
  return {sample("columns", {Dim::batch(), 5}, {1, 3}), sample("both", {3, 5}, {2, 3}),
          sample("middle", {Dim::batch(), 3, 2}, {1, 2, 1}), sample("single", {Dim::batch(), 1}, {1, 7})};
}

const Op kTile{.name = "tile",
               .storable = true,
               .infer = infer,
               .types = {kAnyType},
               .grad = grad,
               .prepare = prepare,
               .samples = samples,
               .traits = {.batch = BatchRule::Rows, .recomputable = true},
               .onnx = "Tile"};

}  // namespace

Tensor tile(Tensor x, Dims times, Name name) { return apply(kTile, {x}, {{"times", Shape::from(times)}}, name); }

OpList tile_ops() { return {&kTile}; }

}  // namespace plimsoll::ops
