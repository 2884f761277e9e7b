// What the engine itself does with gradients; users' functions are in <plimsoll/optimiser.h>.
#pragma once

#include <plimsoll/tensor.h>

namespace plimsoll::autodiff {

// A dense tensor of a gradient that may be row-sparse.
Tensor densify(const Gradient& gradient, const Shape& table);

}  // namespace plimsoll::autodiff
