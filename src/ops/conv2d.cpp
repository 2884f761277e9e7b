// conv2d: y = x * kernel (+ bias) (+ residual), images [N,C,H,W], filters [O,C/groups,h,w]; and its two gradients.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/activation.h"
#include "kernels/convolution.h"
#include "kernels/half_product.h"
#include "ops/conv2d.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  const bool residual = n.attrs.i("residual") != 0;
  n.expect_inputs(residual ? 3 : 2, residual ? 4 : 3);
  for (const size_t i : {0, 1}) n.expect_rank(i, 4);
  parse_activation(n.attrs.s("activation"));
  const Shape& x = n.in[0].shape;
  const Shape& kernel = n.in[1].shape;
  const int64_t groups = window_of(n.attrs).groups;
  if (groups < 1 || kernel[1].fixed() * groups != x[1].fixed())
    n.fail(fmt::format("kernel is {} but input has {} channels; with groups = {} its second size must be {}",
                       to_string(n.in[1]), to_string(x[1]), groups,
                       groups < 1 || x[1].fixed() % groups != 0 ? "channels / groups, a whole number"
                                                                : std::to_string(x[1].fixed() / groups)));
  if (kernel[0].fixed() % groups != 0)
    n.fail(fmt::format("{} output channels can't be divided among {} groups", to_string(kernel[0]), groups));
  if (n.in.size() == (residual ? 4 : 3) && !(n.in[2].shape == Shape{kernel[0]}))
    n.fail(fmt::format("bias must be [{}] but is {}", to_string(kernel[0]), to_string(n.in[2])));
  const auto size = output_size(n, {x[2].fixed(), x[3].fixed()}, {kernel[2].fixed(), kernel[3].fixed()});
  n.out = {{DType::F32, {x[0], kernel[0], size[0], size[1]}}};
  if (residual && !(n.in.back() == n.out[0]))
    n.fail(fmt::format("residual must be {} but is {}", to_string(n.out[0]), to_string(n.in.back())));
}

ConvolutionSizes sizes_of(const Facts& facts) {
  return {facts.in[0].dims, facts.in[1].dims, facts.out[0].dims, window_of(facts.attrs)};
}

void grad(Backward& b) {
  if (b.attrs.has("activation")) throw Error("conv2d: activations are fused after the gradients are made, not before");
  const Window window = window_of(b.attrs);
  const bool residual = b.attrs.i("residual") != 0;
  const bool has_bias = b.x.size() == (residual ? 4 : 3);
  const bool wants_bias = has_bias && b.wanted[2];
  if (b.wanted[0]) b.give(0, conv2d_input_grad(b.dy[0], b.x[1], b.x[0].shape(), window));
  if (b.wanted[1]) {
    const KernelGrad grads = conv2d_kernel_grad(b.x[0], b.dy[0], b.x[1].shape(), window, wants_bias);
    b.give(1, grads.kernel);
    if (wants_bias) b.give(2, grads.bias);
  } else if (wants_bias) {
    b.give(2, reduce_sum(b.dy[0], {0, 2, 3}));
  }
  if (residual) b.give(b.x.size() - 1, b.dy[0]);
}

Prepared prepare(const Facts& facts) { return prepare_convolution(facts, sizes_of(facts)); }
// Measured shares of peak speed. Depthwise convolution is bound by memory, and slower with strides.
bool is_depthwise(const ConvolutionSizes& sizes) { return sizes.window.groups > 1 && sizes.kernel[1] == 1; }
bool is_strided(const ConvolutionSizes& sizes) { return sizes.window.strides[0] * sizes.window.strides[1] > 1; }
int64_t points(const ConvolutionSizes& sizes) { return sizes.kernel[2] * sizes.kernel[3]; }

// Winograd's algorithm needs fewer products than are counted. Tiles that reach beyond the image waste some, transforms
// cost most with few channels, and cache misses cost most with many.
double efficiency_of(const Winograd::Sizes& n, double few, double some, double many, double most) {
  const double share =
      static_cast<double>(n.out_height * n.out_width) / static_cast<double>(16 * n.tiles_down() * n.tiles_across());
  return share * (n.inputs <= 64 ? few : n.inputs <= 256 ? some : n.inputs <= 512 ? many : most);
}

double efficiency(const Facts& facts, const ConvolutionSizes& sizes) {
  if (const auto n = winograd_sizes(facts, sizes, ConvolutionPass::Forward))
    return efficiency_of(*n, 1.8, 2.6, 2.5, 2.1);
  if (is_depthwise(sizes)) return 0.3;
  if (points(sizes) == 1) return is_strided(sizes) ? 0.95 : 0.97;
  if (sizes.kernel[0] <= 16) return 0.5;
  return is_strided(sizes) ? 0.82 : 0.97;
}

double efficiency_of_input_grad(const Facts& facts, const ConvolutionSizes& sizes) {
  if (const auto n = winograd_sizes(facts, sizes, ConvolutionPass::InputGrad))
    return efficiency_of(*n, 1.8, 2.6, 2.5, 2.1);
  if (is_depthwise(sizes)) return is_strided(sizes) ? 0.11 : 0.26;
  if (sizes.kernel[0] <= 16 && points(sizes) > 1) return 0.5;
  return is_strided(sizes) ? 0.86 : 0.97;
}

double efficiency_of_kernel_grad(const Facts& facts, const ConvolutionSizes& sizes) {
  if (const auto n = winograd_sizes(facts, sizes, ConvolutionPass::KernelGrad))
    return efficiency_of(*n, 1.4, 2.1, 2.0, 1.4);
  if (is_depthwise(sizes)) return is_strided(sizes) ? 0.16 : 0.37;
  const auto outputs = static_cast<double>(sizes.kernel[0]);
  const auto inputs = static_cast<double>(sizes.kernel[1]);
  if (points(sizes) == 1) {  // few channels: short sums
    const double fewest = std::min(outputs, inputs);
    return std::min(is_strided(sizes) ? 0.86 : 0.96, 1.05 * fewest / (fewest + 24));
  }
  if (has_one_channel(sizes)) return 0.5;
  if (inputs < 8 && points(sizes) <= 9 && !is_strided(sizes)) return 0.42;
  return is_strided(sizes) ? 0.62 : 0.72;
}

Cost cost_of(const Facts& facts, const ConvolutionSizes& sizes,
             double (*efficiency_in_f32)(const Facts&, const ConvolutionSizes&)) {
  if (!computes_in_bf16(facts.attrs)) return {sizes.flops(), efficiency_in_f32(facts, sizes)};
  constexpr double kDirect = 0.9;  // of oneDNN's direct kernels in f32
  return {sizes.flops(), kDirect * kHalfSpeedup};
}

Cost cost(const Facts& facts) { return cost_of(facts, sizes_of(facts), efficiency); }

// Not for few channels, which leave the blocks of bf16 partly empty, nor where f32 uses Winograd's algorithm with
// vectors of eight floats, which saves more time than bf16 does.
std::optional<HalfCompute> half_compute_of(const ConvolutionSizes& sizes, ConvolutionPass pass, bool has_winograd,
                                           const HalfCompute& half) {
  const bool is_plain = sizes.window.groups == 1 && sizes.kernel[1] >= 4 && sizes.kernel[0] >= 8;
  if (!is_plain || (has_winograd && Winograd::block() == 8) || !has_half_convolution(sizes, pass)) return std::nullopt;
  return half;
}

std::optional<HalfCompute> half_compute(const Facts& facts) {
  if (facts.attrs.i("residual") != 0) return std::nullopt;
  const ConvolutionSizes sizes = sizes_of(facts);
  return half_compute_of(sizes, ConvolutionPass::Forward, uses_winograd(facts, sizes, ConvolutionPass::Forward),
                         {.takes = 0b1, .needs = 0b1, .gives = true});
}

// The node that the fusing rewrites of lowering make.
Tensor fused(std::initializer_list<Tensor> inputs, const Window& window, std::string_view activation, bool residual) {
  Attrs attrs = attrs_of(window);
  if (!activation.empty()) attrs.set("activation", std::string(activation));
  if (residual) attrs.set("residual", int64_t{1});
  return apply(*find_op("conv2d"), inputs, attrs);
}

std::vector<Sample> samples() {
  const Dim batch = Dim::batch();
  const auto sample = [=](std::string name, Shape x, Shape kernel, Window window, bool bias) {
    return Sample{std::move(name), [=](SampleBuilder& s) {
                    const Tensor image = s.input(x);
                    const Tensor filter = s.input(kernel);
                    return std::vector{conv2d(image, filter, bias ? s.input({kernel[0]}) : Tensor(), window)};
                  }};
  };
  const auto with_activation = [=](std::string name, bool bias, bool residual) {
    return Sample{name + (residual ? ", residual" : "") + (bias ? ", bias" : ""),
                  [=](SampleBuilder& s) {
                    std::vector<Tensor> in{s.input({batch, 3, 4, 3}), s.input({8, 3, 3, 3})};
                    if (bias) in.push_back(s.input({8}));
                    if (residual) in.push_back(s.input({batch, 8, 2, 1}));
                    Attrs attrs{{"activation", name}};
                    if (residual) attrs.set("residual", int64_t{1});
                    return std::vector<Tensor>{apply(*find_op("conv2d"), in, attrs)};
                  },
                  1e-4, false};
  };
  return {
      sample("plain", {batch, 3, 4, 5}, {2, 3, 3, 2}, {}, false),
      sample("bias", {batch, 3, 4, 4}, {5, 3, 3, 3}, Window::padded(1), true),
      sample("1x1", {batch, 8, 3, 2}, {8, 8, 1, 1}, {}, true),
      sample("blocked", {batch, 8, 3, 2}, {8, 8, 3, 1}, {{1, 1}, {1, 0, 1, 0}, {1, 1}, 1}, true),
      sample("padded channels", {batch, 8, 2, 3}, {10, 8, 1, 2}, {}, true),
      sample("strided", {batch, 2, 7, 5}, {3, 2, 3, 3}, Window::strided(2, 1), false),
      sample("asymmetric", {batch, 2, 4, 5}, {3, 2, 3, 2}, {{2, 1}, {0, 1, 1, 0}, {1, 1}, 1}, true),
      sample("one channel", {batch, 1, 5, 4}, {3, 1, 3, 2}, Window::padded(1), true),
      sample("one channel, strided, dilated", {batch, 1, 7, 6}, {9, 1, 2, 2}, {{2, 1}, {1, 0, 0, 1}, {1, 2}, 1}, false),
      sample("dilated", {batch, 2, 5, 6}, {3, 2, 2, 3}, {{1, 1}, {1, 1, 1, 1}, {2, 2}, 1}, true),
      sample("groups", {batch, 4, 3, 3}, {6, 2, 2, 2}, {{1, 1}, {0, 0, 0, 0}, {1, 1}, 2}, true),
      sample("blocked groups", {batch, 16, 2, 2}, {16, 8, 1, 1}, {{1, 1}, {0, 0, 0, 0}, {1, 1}, 2}, true),
      sample("depthwise", {batch, 8, 3, 3}, {8, 1, 3, 3}, {{1, 1}, {1, 1, 1, 1}, {1, 1}, 8}, true),
      sample("odd depthwise, strided", {batch, 5, 4, 3}, {5, 1, 3, 3}, {{2, 2}, {1, 1, 1, 1}, {1, 1}, 5}, false),
      sample("depthwise multiplier", {batch, 3, 3, 3}, {6, 1, 2, 2}, {{1, 1}, {0, 0, 0, 0}, {1, 1}, 3}, true),
      {"residual",
       [=](SampleBuilder& s) {
         return std::vector{
             fused({s.input({batch, 3, 4, 3}), s.input({8, 3, 3, 3}), s.input({batch, 8, 2, 1})}, {}, "", true)};
       }},
      with_activation("relu", false, false),
      with_activation("relu", true, false),
      with_activation("relu6", true, false),
      with_activation("sigmoid", true, false),
      with_activation("tanh", true, false),
      with_activation("relu", true, true),
      with_activation("relu", false, true),
  };
}

const Op kConv2d{.name = "conv2d",
                 .storable = true,
                 .infer = infer,
                 .grad = grad,
                 .prepare = prepare,
                 .cost = cost,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .onnx = "Conv",
                 .fusion = {.applies_activation = true},
                 .half_compute = half_compute};

void infer_input_grad(Infer& n) {
  n.expect_inputs(2, 2);
  n.out = {{DType::F32, n.attrs.shape("shape")}};
}

ConvolutionSizes sizes_of_input_grad(const Facts& facts) {
  return {facts.out[0].dims, facts.in[1].dims, facts.in[0].dims, window_of(facts.attrs)};
}

const Op kInputGrad{
    .name = "conv2d_input_grad",
    .infer = infer_input_grad,
    .prepare = [](const Facts& facts) { return prepare_convolution_input_grad(facts, sizes_of_input_grad(facts)); },
    .cost = [](const Facts& facts) { return cost_of(facts, sizes_of_input_grad(facts), efficiency_of_input_grad); },
    .traits = {.batch = BatchRule::Rows, .recomputable = true},
    .half_compute =
        [](const Facts& facts) {
          const ConvolutionSizes sizes = sizes_of_input_grad(facts);
          return half_compute_of(sizes, ConvolutionPass::InputGrad,
                                 uses_winograd(facts, sizes, ConvolutionPass::InputGrad), {.takes = 0b1, .needs = 0b1});
        }};

void infer_kernel_grad(Infer& n) {
  n.expect_inputs(2, 2);
  const Shape kernel = n.attrs.shape("kernel");
  n.out = {{DType::F32, kernel}};
  if (n.attrs.i("bias") != 0) n.out.push_back({DType::F32, {kernel[0]}});
}

ConvolutionSizes sizes_of_kernel_grad(const Facts& facts) {
  return {facts.in[0].dims, facts.out[0].dims, facts.in[1].dims, window_of(facts.attrs)};
}

const Op kKernelGrad{
    .name = "conv2d_kernel_grad",
    .infer = infer_kernel_grad,
    .prepare = [](const Facts& facts) { return prepare_convolution_kernel_grad(facts, sizes_of_kernel_grad(facts)); },
    .cost = [](const Facts& facts) { return cost_of(facts, sizes_of_kernel_grad(facts), efficiency_of_kernel_grad); },
    .traits = {.batch = BatchRule::Sums, .recomputable = true},
    .half_compute =
        [](const Facts& facts) {
          const ConvolutionSizes sizes = sizes_of_kernel_grad(facts);
          return half_compute_of(sizes, ConvolutionPass::KernelGrad,
                                 uses_winograd(facts, sizes, ConvolutionPass::KernelGrad),
                                 {.takes = 0b11, .needs = 0b11});
        }};

}  // namespace

Tensor conv2d(Tensor x, Tensor kernel, Tensor bias, const Window& window, Name name) {
  if (!bias.is_set()) return apply(kConv2d, {x, kernel}, attrs_of(window), name);
  return apply(kConv2d, {x, kernel, bias}, attrs_of(window), name);
}

Tensor conv2d_input_grad(Tensor dy, Tensor kernel, const Shape& x, const Window& window) {
  Attrs attrs = attrs_of(window);
  attrs.set("shape", x);
  return apply(kInputGrad, {dy, kernel}, attrs);
}

KernelGrad conv2d_kernel_grad(Tensor x, Tensor dy, const Shape& kernel, const Window& window, bool bias) {
  Attrs attrs = attrs_of(window);
  attrs.set("kernel", kernel);
  if (bias) attrs.set("bias", int64_t{1});
  const Outputs out = apply(kKernelGrad, {x, dy}, attrs);
  return {out[0], bias ? out[1] : Tensor()};
}

OpList conv2d_ops() { return {&kConv2d, &kInputGrad, &kKernelGrad}; }

}  // namespace plimsoll::ops
