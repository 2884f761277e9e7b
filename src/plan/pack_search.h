// Exact packing: does everything fit below a given height?
#pragma once

#include <cstdint>
#include <optional>

#include "plan/pack_boxes.h"

namespace plimsoll {

enum class Verdict { Fits, Impossible, Unknown };

struct SearchResult {
  Verdict verdict = Verdict::Unknown;
  Offsets offsets;  // when it fits
};

// Depth-first over canonical packings: boxes are placed from the bottom up, each at its lowest possible offset.
// Spends at most `nodes` placements and takes them off.
SearchResult pack_search(const Boxes& boxes, Bytes capacity, int64_t& nodes);

}  // namespace plimsoll
