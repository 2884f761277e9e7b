// Exact packing: does everything fit below a given height?
#pragma once

#include <cstdint>

#include "plan/pack/pack_boxes.h"

namespace plimsoll::plan {

enum class Feasibility { Fits, Impossible, Unknown };

struct SearchResult {
  Feasibility feasibility = Feasibility::Unknown;
  Offsets offsets;  // when it fits
};

// Is the problem small enough for the search to hold?
bool is_searchable(const Boxes& boxes);

// Depth-first over packings in which no box can sink, in many short tries that share what they refuted. Takes
// what it spends off `nodes`.
SearchResult pack_search(const Boxes& boxes, Bytes capacity, int64_t& nodes);

}  // namespace plimsoll::plan
