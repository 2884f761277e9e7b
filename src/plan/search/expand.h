// From a packed candidate to a Plan: actions for every micro-batch, lives of the problem's buffers, names of what is
// alive.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "plan/search/option.h"

namespace plimsoll::plan {

// Fills actions, lives, stored and all sizes.
Plan expand(const Problem& problem, const Option& option, const Candidate& candidate);

// What is alive at an action of the candidate, largest first. Of two buffers that share a place there, the later one.
std::vector<Holder> holders_at(const Option& option, const Candidate& candidate, int32_t action);
BytesByTag sum_by_tag(const std::vector<Holder>& holders);

}  // namespace plimsoll::plan
