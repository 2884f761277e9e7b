// The order of tasks, which decides how much is alive at once: the lever that costs no time.
#pragma once

#include <vector>

#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

// Which tasks must run before which, from the program's order: a value is written before it is read, and read before it
// is overwritten. Lists are flat: successors of t are successors[first_successor[t]] up to [first_successor[t + 1]].
struct Precedence {
  std::vector<int32_t> first_successor, successors;
  std::vector<int32_t> first_predecessor, predecessors;
};
Precedence find_precedence(const Problem& problem);

// The order with the lowest peak among a fixed set of candidates, the program's own included. Near-linear.
std::vector<TaskId> choose_order(const Problem& problem, const Sizes& sizes, bool in_place);

}  // namespace plimsoll::plan
