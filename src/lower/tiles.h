// Large optimiser state is cut into tiles: an update treats elements, or blocks of them, apart from each other, so it
// needs one tile at a time.
#pragma once

#include <vector>

#include "graph/body.h"

namespace plimsoll::lower {

constexpr int64_t kTileElements = 2 * MiB;  // 8 MiB of floats; state in 16 bits is cut at the same elements

// How many buffers each variable of the graph takes, in their order. The same for every step of the graph.
std::vector<int32_t> count_tiles(const graph::Body& graph);

}  // namespace plimsoll::lower
