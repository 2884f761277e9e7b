// What conv2d and conv2d_transpose share: the oneDNN primitives of the forward pass and of both gradients.
#pragma once

#include <optional>

#include "kernels/kernel.h"
#include "kernels/window.h"
#include "kernels/winograd.h"

namespace plimsoll::kernels {

// Sizes of a convolution from x to y, whichever of them a node computes.
struct ConvolutionSizes {
  Dims x;       // [N,I,H,W]
  Dims kernel;  // [O,I/groups,kh,kw]
  Dims y;       // [N,O,OH,OW]
  Window window;
  double flops() const;
};

enum class ConvolutionPass : uint8_t { Forward, InputGrad, KernelGrad };

// The sizes for Winograd's algorithm, from x to y or back, where it suits them. The whole batch decides, so that
// every micro-batch is computed in the same way.
std::optional<Winograd::Sizes> winograd_sizes(const Facts& facts, const ConvolutionSizes& sizes, ConvolutionPass pass);

// Whether f32 is computed by Winograd's algorithm: the sizes suit it, and so do oneDNN's layouts on this processor.
bool uses_winograd(const Facts& facts, const ConvolutionSizes& sizes, ConvolutionPass pass);

// Images of one channel: our own filter gradient is several times as fast as oneDNN's.
bool has_one_channel(const ConvolutionSizes& sizes);

// Whether oneDNN multiplies bf16 in this pass, on this processor, and in a way that gains by it.
bool has_half_convolution(const ConvolutionSizes& sizes, ConvolutionPass pass);

// With the setting compute="bf16", images arrive as bf16, the filter as f32; y may be bf16, gradients are f32.
// Inputs x, kernel, perhaps bias, and last the residual if the attribute says so; output y.
Prepared prepare_convolution(const Facts& facts, const ConvolutionSizes& sizes);
// Inputs dy, kernel, perhaps a bias of dx (conv2d_transpose has one); output dx.
Prepared prepare_convolution_input_grad(const Facts& facts, const ConvolutionSizes& sizes);
// Inputs x, dy; outputs dkernel and, if two, dbias.
Prepared prepare_convolution_kernel_grad(const Facts& facts, const ConvolutionSizes& sizes);

}  // namespace plimsoll::kernels
