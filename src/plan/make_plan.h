// The planner: a pure function from problems and limits to a plan, or to the reason why there is none.
#pragma once

#include <span>
#include <variant>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll {

// Throws Error when the problem or the limits make no sense.
std::variant<Plan, Shortfall> make_plan(const Problem& problem, const Limits& limits);

// The same step, whole and cut into parts of several sizes: the fastest of all that fits. The first is the whole one.
struct Choice {
  size_t problem = 0;  // which of them
  std::variant<Plan, Shortfall> answer;
};
Choice choose_plan(std::span<const Problem* const> problems, const Limits& limits);

// Does the whole step fit without anything done twice, cut or stored? Then no plan is faster.
bool fits_freely(const Problem& problem, const Limits& limits);

}  // namespace plimsoll
