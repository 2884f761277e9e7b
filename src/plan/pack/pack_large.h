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

// A packing no higher than the capacity, from one of some boxes, in which the others have offsets below 0; those come
// in the order in which they are placed. All may move. Nothing when it is not found. Takes what it spends off `looks`.
Offsets complete(const Boxes& boxes, Offsets some, const BoxOrder& others, Bytes capacity, int64_t& looks);

// When bytes are short for a small part of the time only: first the boxes alive then, as a problem of their own for the
// search, then the others around them. The lower of this and `best`.
Offsets pack_contended_first(const Boxes& boxes, Offsets best, Bytes enough, const LargeBudget& budget);

}  // namespace plimsoll::plan
