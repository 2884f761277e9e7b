// What our own ways to the gradient of a convolution's kernel work on.
#pragma once

namespace plimsoll::kernels {

struct KernelGradOperands {
  const float *x, *dy;
  float* dkernel;
  float* dbias;  // or null
  bool adds;     // to what both hold
};

}  // namespace plimsoll::kernels
