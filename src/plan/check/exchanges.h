// What a plan exchanges with other ranks, to be compared between them.
#pragma once

#include <string>

#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::plan {

// A line for each exchange of the plan, in order: its name and the bytes that it changes. Ranks whose texts are equal
// never wait for a message that nobody sends.
std::string list_exchanges(const Problem& problem, const Plan& plan);

}  // namespace plimsoll::plan
