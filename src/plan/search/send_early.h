// Exchanges with other ranks start as soon as what they send is there.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace plimsoll::plan {

// The same order with tasks on the network lane, and tasks on variables alone that they wait for, as early as program
// order allows. Such tasks hold no temporary: what is alive at once stays the same. A problem without exchanges keeps
// its order.
void send_early(const Problem& problem, std::vector<TaskId>& order);

}  // namespace plimsoll::plan
