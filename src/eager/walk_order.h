// The order of a walk.
#pragma once

#include <vector>

#include "eager/walk_program.h"

namespace plimsoll::eager {

// The given order, with updates of variables moved forward. A gradient that is used at once need not be held; held
// until the end, all gradients would be in memory together. But a value made from a variable can't be recomputed once
// the variable has changed: an update runs as soon as it frees at least as much as it keeps from being dropped.
std::vector<plan::TaskId> update_early(const std::vector<plan::TaskId>& order, const std::vector<WalkTask>& tasks,
                                       const std::vector<WalkSlot>& slots, size_t buffers);

}  // namespace plimsoll::eager
