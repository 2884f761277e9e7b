// What no plan can go below, and the task that says so.
#pragma once

#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

struct Bound {
  Bytes bytes = 0;
  TaskId task = -1;
};

// How a value that is no longer in memory may come back.
enum class Return {
  ByRunning,  // only its task brings it back, so an input never does
  ByLoading,  // also from a file: then only what a task itself touches is sure to be in memory
};

// Holds for every order, every packing and every way to recompute. Effort is counted, never timed.
Bound find_lower_bound(const Problem& problem, const Sizes& sizes, bool in_place, Return how = Return::ByRunning);

}  // namespace plimsoll::plan
