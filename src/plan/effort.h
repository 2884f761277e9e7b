// What planning takes for itself, counted by the size of the problem: measured once on the longest problems, so that a
// deep model is not planned past the line that it is planned for.
#pragma once

#include "plan/problem.h"

namespace plimsoll::plan {

// Most micro-batches that a step is cut into: each has actions of its own in the plan.
constexpr int64_t kMostMicroBatches = 1024;

// One option (search/option.h): the tasks in order, the lifetimes of the buffers, their packing.
Bytes bytes_of_option(const Problem& problem);
// The search for values to recompute, beside the option that it works on.
Bytes bytes_of_recompute_search(const Problem& problem);
// The least that planning the problem takes: its first option.
constexpr Bytes kBytesToPlanTask = 900;
inline Bytes bytes_to_plan(const Problem& problem) { return bytes_of_option(problem); }

}  // namespace plimsoll::plan
