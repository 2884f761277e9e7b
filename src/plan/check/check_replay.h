// The half of `check` that follows values: which version of each buffer is where, action by action.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::plan {

// Expects ids, actions and lives in range. `by_start` lists the lives sorted by first action.
std::string replay_values(const Problem& problem, const Plan& plan, const std::vector<int32_t>& by_start);

}  // namespace plimsoll::plan
