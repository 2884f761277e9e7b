// Packing of problems too large for the search: ten thousand boxes and more.
#pragma once

#include <cstdint>

#include "plan/pack/pack_boxes.h"

namespace plimsoll::plan {

// Effort, counted.
struct LargeBudget {
  int64_t greedy_looks = 0;  // a look is at one box that is alive together with the one to be placed
  int64_t repair_looks = 0;
  int64_t scans = 0;  // as in PackBudget: for orders when the looks do not allow one
  int64_t nodes = 0;  // as in PackBudget: for searches of smaller problems within
};

// Greedy orders; then the problem of blocks, or that of the most contended times, by search when they are small enough;
// then repair of the lowest. Stops at `enough`.
Offsets pack_large(const Boxes& boxes, Bytes enough, const LargeBudget& budget);

// Lowers a packing step by step: boxes above a target are taken out and put back where they displace least, and so are
// the displaced. Never higher than `best`.
Offsets repair(const Boxes& boxes, Offsets best, Bytes enough, int64_t looks);

// Extends a packing of some boxes (offsets of the others are below 0) to one of all, no higher than the capacity. The
// others are placed in their order; all boxes may move. Empty when none is found. Subtracts what it spends from
// `looks`.
Offsets complete(const Boxes& boxes, Offsets some, const BoxOrder& others, Bytes capacity, int64_t& looks);

// For problems whose load is near the bound for a small part of the time only: packs the boxes alive then by the exact
// search, then the others around them. The lower of the result and `best`.
Offsets pack_contended_first(const Boxes& boxes, Offsets best, Bytes enough, const LargeBudget& budget);

}  // namespace plimsoll::plan
