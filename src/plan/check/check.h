// Checks a plan: replays it without knowing how it was made and returns the first fault as a sentence.
#pragma once

#include <string>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::plan {

// Empty when the plan computes what the problem says, inside the limits. Otherwise the first fault found, such as
// "relu2 overlaps conv1 at action 7 (bytes 4096-8191)". Shares no code with the search and costs a sort and a sweep.
std::string check(const Problem& problem, const Plan& plan, const Limits& limits);

}  // namespace plimsoll::plan
