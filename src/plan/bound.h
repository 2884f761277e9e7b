// What no plan can go below, and the task that says so.
#pragma once

#include "plan/problem.h"
#include "plan/slots.h"

namespace plimsoll {

struct Bound {
  Bytes bytes = 0;
  TaskId task = -1;
};

// Whatever the order, a task needs its own buffers at once, beside the variables.
Bound find_lower_bound(const Problem& problem, const Sizes& sizes, bool in_place);

}  // namespace plimsoll
