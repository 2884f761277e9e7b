// The gradients of a convolution as nodes, shared by conv2d and conv2d_transpose.
#pragma once

#include "kernels/window.h"
#include "ops/ops.h"

namespace plimsoll::ops {

Tensor conv2d_input_grad(Tensor dy, Tensor kernel, const Shape& x, const Window& window);
struct KernelGrad {
  Tensor kernel, bias;
};
KernelGrad conv2d_kernel_grad(Tensor x, Tensor dy, const Shape& kernel, const Window& window, bool bias);

}  // namespace plimsoll::ops
