// Reverse-mode differentiation: the backward pass as more nodes of the same graph.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// The gradient of `loss`, a scalar, with respect to each of `wrt`; unset where none flows. With `seed` (shape of
// `loss`), of the sum of seed x loss instead, and `loss` may have any shape.
std::vector<Gradient> gradients(Tensor loss, std::span<const Tensor> wrt, Tensor seed = {});

// A dense tensor of a gradient that may be row-sparse.
Tensor densify(const Gradient& gradient, const Shape& table);

}  // namespace plimsoll
