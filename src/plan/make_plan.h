// The planner: a pure function from a problem and limits to a plan, or to the reason why there is none.
#pragma once

#include <variant>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll {

// Throws Error when the problem or the limits make no sense.
std::variant<Plan, Shortfall> make_plan(const Problem& problem, const Limits& limits);

}  // namespace plimsoll
