// What variables say of their own training beside the optimiser: regularisers and constraints.
#pragma once

#include <optional>

#include <plimsoll/graph.h>

namespace plimsoll::autodiff {

const StoredVariable& stored(Tensor variable);

// What the regularisers of weights add to the loss, without a gradient: updates add that themselves. Unset: there are
// none.
Tensor penalty(std::span<const Tensor> weights);

// Adds an update that leaves of the weight what its constraint allows; none without one. `is_whole`: not a slice of a
// rank.
std::optional<NodeId> add_constraint(Tensor weight, bool is_whole);

}  // namespace plimsoll::autodiff
