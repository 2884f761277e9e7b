// Operands of our own filter gradients of convolutions.
#pragma once

namespace plimsoll::kernels {

struct KernelGradOperands {
  const float *x, *dy;
  float* dkernel;
  float* dbias;  // or null
  bool adds;     // to what both hold
};

}  // namespace plimsoll::kernels
