// What the engine itself does with gradients; users' functions are in <plimsoll/optimiser.h>.
#pragma once

#include <span>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll::autodiff {

// Which nodes count: a derivative flows through nodes from `first_node` on, and reaches tensor i of `wrt` through those
// of them that are not before since[i]. `since` empty: through all of them.
struct Watched {
  NodeId first_node = 0;
  std::vector<NodeId> since = {};
};
// Like gradients, for a loss of any shape when a seed is given.
std::vector<Gradient> differentiate(Tensor loss, std::span<const Tensor> wrt, Tensor seed, const Watched& watched);

// A value whose gradient is known, such as one that another rank computed from.
struct Seed {
  Tensor of, gradient;
};
// The gradients of `wrt` from those of several values, each of them f32 or another real type.
std::vector<Gradient> differentiate_from(std::span<const Seed> seeds, std::span<const Tensor> wrt,
                                         const Watched& watched);

// A dense tensor of a gradient that may be row-sparse.
Tensor densify(const Gradient& gradient, const Shape& table);

}  // namespace plimsoll::autodiff
