// reshape, flatten, squeeze, expand_dims: the same bytes under another shape.
#include <fmt/format.h>

#include "graph/shape.h"
#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const Shape shape = n.attrs.shape("shape");
  if (!(element_count(shape) == element_count(n.in[0].shape)))
    n.fail(fmt::format("{} has {} elements but {} has {}", to_string(n.in[0]), to_string(element_count(n.in[0].shape)),
                       to_string(shape), to_string(element_count(shape))));
  n.out = {{n.in[0].dtype, shape}};
}

void grad(Backward& b) { b.give(0, reshape(b.dy[0], b.x[0].shape())); }

// The bytes keep their order: sample i stays sample i only where as many elements stand before the batch.
BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  if (!element_count(in[0].shape).is_batch()) return BatchRule::Rows;
  const bool keeps_samples =
      graph::elements_before_batch(in[0].shape) == graph::elements_before_batch(attrs.shape("shape"));
  return keeps_samples ? BatchRule::Rows : BatchRule::Mixes;
}

std::vector<Sample> samples() {
  return {
      {"merge",
       [](SampleBuilder& s) {
         return std::vector{reshape(s.input({Dim::batch(), 3, 4}), {Dim::batch(3), 4})};
       }},
      {"flatten",
       [](SampleBuilder& s) {
         return std::vector{flatten(s.input({Dim::batch(), 3, 4, 2}))};
       }},
      {"squeeze",
       [](SampleBuilder& s) {
         return std::vector{squeeze(s.input({Dim::batch(), 1, 4}), 1)};
       }},
      {"expand_dims",
       [](SampleBuilder& s) {
         return std::vector{expand_dims(s.input({Dim::batch(), 4}), 1)};
       }},
      {"batch inside, before it as many",
       [](SampleBuilder& s) {
         return std::vector{reshape(s.input({4, Dim::batch(), 6}), {2, 2, Dim::batch(3), 2})};
       }},
      {"batch moved",
       [](SampleBuilder& s) {
         const Tensor x = s.input({3, Dim::batch(), 2});
         return std::vector{reshape(x, {Dim::batch(3), 2}), reshape(x, {Dim::batch(), 3, 2})};
       }},
  };
}

const Op kReshape{.name = "reshape",
                  .storable = true,
                  .infer = infer,
                  .types = {kAnyType},
                  .grad = grad,
                  .samples = samples,
                  .traits = {.batch = BatchRule::Rows, .recomputable = true, .view = true},
                  .batch_rule = batch_rule,
                  .onnx = "Reshape"};

}  // namespace

Tensor reshape(Tensor x, Shape shape, Name name) {
  if (shape == x.shape()) return x;
  return apply(kReshape, {x}, {{"shape", shape}}, name);
}

Tensor flatten(Tensor x, int first_axis, Name name) {
  Shape shape;
  Dim rest = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < first_axis)
      shape.push_back(x.dim(i));
    else
      rest = rest * x.dim(i);
  }
  shape.push_back(rest);
  return reshape(x, shape, name);
}

Tensor squeeze(Tensor x, int axis, Name name) {
  Shape shape = x.shape();
  const int at = axis < 0 ? axis + x.rank() : axis;
  if (at < 0 || at >= x.rank() || !(shape[at] == Dim(1)))
    throw Error(fmt::format("squeeze '{}': {} has no dimension of size 1 at axis {}", name, to_string(x.type()), axis));
  shape.erase(at);
  return reshape(x, shape, name);
}

Tensor expand_dims(Tensor x, int axis, Name name) {
  Shape shape = x.shape();
  const int at = axis < 0 ? axis + x.rank() + 1 : axis;
  if (at < 0 || at > x.rank())
    throw Error(fmt::format("expand_dims '{}': axis {} is outside {}", name, axis, to_string(x.type())));
  shape.insert(at, 1);
  return reshape(x, shape, name);
}

OpList reshape_ops() { return {&kReshape}; }

}  // namespace plimsoll::ops
