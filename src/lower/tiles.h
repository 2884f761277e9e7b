// Large state of an optimiser is cut into tiles: an update works element by element, so it needs one tile at a time.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace plimsoll {

constexpr Bytes kTileBytes = 8 * MiB;

// How many buffers each variable of the graph takes, in their order. The same for every step of the graph.
std::vector<int32_t> count_tiles(const Graph& graph);

}  // namespace plimsoll
