// Weights that no node of the graph updates, kept in bf16 or int8: lossy, only on request.
#pragma once

#include <optional>
#include <vector>

#include "kernels/packed_weights.h"
#include "lower/draft.h"

namespace plimsoll::lower {

// By variable of the graph: some node updates it.
std::vector<bool> find_updated(const graph::Body& graph);

// How a variable is kept. Matrices and filters of at least 16,384 weights that nothing updates are packed; all else
// stays as it is. Depends on the graph alone: all programs of a session agree.
std::optional<kernels::PackedWeights> packed_form(const graph::Body& graph, size_t variable, bool is_updated,
                                                  DType dtype);

// Readers of a packed variable read it packed where they can; else it is unpacked before them, once for the forward and
// once for the backward pass. Unpacked weights can be dropped and recomputed at any time.
//
//   packed w ──unpack──► forward readers
//            ├─unpack──► backward readers
//            └─────────► gather, linear_cross_entropy
void pack_frozen(Draft& draft, DType dtype);

}  // namespace plimsoll::lower
