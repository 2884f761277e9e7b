// Where a run of values that are dropped together may end: places of the order that few bytes cross.
#pragma once

#include <span>
#include <vector>

#include "plan/search/drops.h"

namespace plimsoll::plan {

// `gaps` lie over the stage `peak` and are sorted by maker. The answer holds rising positions in `gaps`, its start and
// its end among them: what is made from one of them on needs, of all that was made before it, no more than the values
// that `crosses` names, which are alive at the peak and few.
std::vector<size_t> find_waists(const Drops& drops, std::span<const Gap> gaps, int32_t peak);

// Whether the value is needed to make again what comes at `position` or behind it.
bool crosses(const Drops& drops, std::span<const Gap> gaps, const Gap& value, size_t position);

}  // namespace plimsoll::plan
