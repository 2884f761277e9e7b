// conv2d_transpose: the convolution run backwards, images [N,C,H,W], filters [C,O/groups,h,w].
#include <fmt/format.h>

#include "kernels/convolution.h"
#include "ops/conv2d.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(2, 3);
  for (const size_t i : {0, 1}) n.expect_rank(i, 4);
  const Shape& x = n.in[0].shape;
  const Shape& kernel = n.in[1].shape;
  const Window window = window_of(n.attrs);
  if (!(kernel[0] == x[1]))
    n.fail(fmt::format("kernel is {} but input has {} channels; its first size must be {}", to_string(n.in[1]),
                       to_string(x[1]), to_string(x[1])));
  if (window.groups < 1 || x[1].fixed() % window.groups != 0)
    n.fail(fmt::format("{} channels can't be divided among {} groups", to_string(x[1]), window.groups));
  const Dim channels = kernel[1] * Dim(window.groups);
  if (n.in.size() == 3 && !(n.in[2].shape == Shape{channels}))
    n.fail(fmt::format("bias must be [{}] but is {}", to_string(channels), to_string(n.in[2])));
  const Dims extra = n.attrs.dims("output_pads", {0, 0});
  Shape out{x[0], channels};
  for (const int i : {0, 1}) {
    const auto at = static_cast<size_t>(i);
    if (window.strides[at] < 1 || window.dilations[at] < 1) n.fail("strides and dilations must be at least 1");
    if (kernel[i + 2] == Dim(0) || x[i + 2] == Dim(0))
      n.fail(fmt::format("neither input {} nor kernel {} may be empty", to_string(n.in[0]), to_string(n.in[1])));
    if (extra[i] >= window.strides[at])
      n.fail(
          fmt::format("output pads must be smaller than the strides but are {} and {}", extra[i], window.strides[at]));
    const int64_t size = (x[i + 2].fixed() - 1) * window.strides[at] - window.pads[at] - window.pads[at + 2] +
                         window.dilations[at] * (kernel[i + 2].fixed() - 1) + 1 + extra[i];
    if (size < 1) n.fail(fmt::format("pads [{}] leave nothing of the output", fmt::join(window.pads, ",")));
    out.push_back(size);
  }
  n.out = {{DType::F32, out}};
}

// The sizes of the convolution that maps the output of this operator to its input.
ConvolutionSizes sizes_of(const Facts& facts) {
  return {facts.out[0].dims, facts.in[1].dims, facts.in[0].dims, window_of(facts.attrs)};
}

void grad(Backward& b) {
  const Window window = window_of(b.attrs);
  if (b.wanted[0]) b.give(0, conv2d(b.dy[0], b.x[1], {}, window));
  if (b.wanted[1]) b.give(1, conv2d_kernel_grad(b.dy[0], b.x[0], b.x[1].shape(), window, false).kernel);
  if (b.x.size() == 3 && b.wanted[2]) b.give(2, reduce_sum(b.dy[0], {0, 2, 3}));
}

Prepared prepare(const Facts& facts) { return prepare_convolution_input_grad(facts, sizes_of(facts)); }
Cost cost(const Facts& facts) { return {sizes_of(facts).flops(), 0.68}; }

std::vector<Sample> samples() {
  const Dim batch = Dim::batch();
  const auto sample = [](std::string name, Shape x, Shape kernel, Window window, std::array<int64_t, 2> output_pads,
                         bool bias) {
    return Sample{std::move(name), [=](SampleBuilder& s) {
                    const Tensor image = s.input(x);
                    const Tensor filter = s.input(kernel);
                    const Dim channels = kernel[1] * Dim(window.groups);
                    return std::vector{
                        conv2d_transpose(image, filter, bias ? s.input({channels}) : Tensor(), window, output_pads)};
                  }};
  };
  return {
      sample("plain", {batch, 3, 3, 2}, {3, 2, 2, 3}, {}, {0, 0}, false),
      sample("strided, bias", {batch, 3, 3, 2}, {3, 2, 3, 3}, Window::strided(2, 1), {0, 0}, true),
      sample("output pads", {batch, 3, 2, 2}, {3, 2, 3, 3}, Window::strided(2, 1), {1, 1}, true),
      sample("blocked", {batch, 8, 2, 2}, {8, 8, 1, 2}, {}, {0, 0}, true),
      sample("padded channels", {batch, 8, 2, 2}, {8, 9, 1, 2}, {}, {0, 0}, true),
      sample("groups", {batch, 4, 2, 3}, {4, 3, 2, 2}, {{1, 2}, {0, 0, 0, 0}, {1, 1}, 2}, {0, 1}, true),
      sample("dilated, asymmetric", {batch, 2, 3, 3}, {2, 3, 2, 2}, {{2, 1}, {1, 0, 0, 1}, {2, 2}, 1}, {1, 0}, false),
      sample("depthwise", {batch, 8, 2, 2}, {8, 1, 2, 2}, {{1, 1}, {0, 0, 0, 0}, {1, 1}, 8}, {0, 0}, true),
  };
}

const Op kConv2dTranspose{.name = "conv2d_transpose",
                          .storable = true,
                          .infer = infer,
                          .grad = grad,
                          .prepare = prepare,
                          .cost = cost,
                          .samples = samples,
                          .traits = {.batch = BatchRule::Rows, .recomputable = true},
                          .onnx = "ConvTranspose"};

}  // namespace

Tensor conv2d_transpose(Tensor x, Tensor kernel, Tensor bias, const Window& window, std::array<int64_t, 2> output_pads,
                        Name name) {
  Attrs attrs = attrs_of(window);
  if (output_pads[0] != 0 || output_pads[1] != 0) attrs.set("output_pads", Shape::from(output_pads));
  if (!bias.is_set()) return apply(kConv2dTranspose, {x, kernel}, attrs, name);
  return apply(kConv2dTranspose, {x, kernel, bias}, attrs, name);
}

OpList conv2d_transpose_ops() { return {&kConv2dTranspose}; }

}  // namespace plimsoll::ops
