// What the engine itself does with gradients; users' functions are in <plimsoll/optimiser.h>.
#pragma once

#include <span>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll::autodiff {

// Which part of a graph counts: a derivative flows through nodes from `first_node` on, and starts at a tensor of `wrt`
// where nodes from that of `since` on use it. Empty: from `first_node` on.
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
