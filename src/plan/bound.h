// What no plan can go below, and the task that says so.
#pragma once

#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

struct Bound {
  Bytes bytes = 0;
  TaskId task = -1;
};

// How a value that left may come back.
enum class Return {
  ByRunning,  // only its task brings it back, so an input never does
  ByLoading,  // also from a file: then only what a task touches itself is sure
};

// Holds for every order, every choice of places and every way to run tasks again. Effort is counted, never timed.
Bound find_lower_bound(const Problem& problem, const Sizes& sizes, bool in_place, Return how = Return::ByRunning);

}  // namespace plimsoll::plan
