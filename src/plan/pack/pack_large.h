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
};

// Greedy orders, then repair of the lowest; stops at `enough`.
Offsets pack_large(const Boxes& boxes, Bytes enough, const LargeBudget& budget);

// Lowers a packing step by step: boxes above a target are taken out and put back where they displace least, and so are
// the displaced. Never higher than `best`.
Offsets repair(const Boxes& boxes, Offsets best, Bytes enough, int64_t looks);

}  // namespace plimsoll::plan
