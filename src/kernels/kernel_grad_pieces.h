// oneDNN's filter gradient of a convolution, cut into pieces that depend on the sizes alone. oneDNN itself cuts the
// sums by the number of threads, which would change the bits of the result.
#pragma once

#include <functional>

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/kernel.h"

namespace plimsoll::kernels {

// The same gradient for other sizes of its operands; empty when oneDNN has no kernel for them.
using KernelGradMaker = std::function<dnnl::convolution_backward_weights::primitive_desc(
    const dnnl::memory::desc& x, const dnnl::memory::desc& kernel, const dnnl::memory::desc& bias,
    const dnnl::memory::desc& dy)>;

// Whether the work is cut into pieces, each for one thread. Where it is not, oneDNN divides it among threads.
bool cuts_kernel_grad(const dnnl::convolution_backward_weights::primitive_desc& whole);

// Inputs x, dy; outputs dkernel and, if two, dbias. All lie as `whole` says.
Prepared prepare_kernel_grad_pieces(const Facts& facts, const dnnl::convolution_backward_weights::primitive_desc& whole,
                                    const KernelGradMaker& make);

}  // namespace plimsoll::kernels
