// The keys of nodes that draw random numbers. Within a graph no two nodes share one, unless one is to repeat the other.
#pragma once

#include "graph/body.h"

namespace plimsoll::graph {

// The key of a node of a recording: it becomes the number of the draw, counted from the start of the recording.
constexpr int64_t kNextDraw = -1;

// A key that follows from a text, and that no node of that operator after node `first` has.
int64_t free_key(const Body& graph, const Op& op, uint64_t wanted, NodeId first = 0);

}  // namespace plimsoll::graph
