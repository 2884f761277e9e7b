// Where a run of values that are dropped together may end: places of the order that few bytes cross.
#pragma once

#include <span>
#include <vector>

#include "plan/search/drops.h"

namespace plimsoll::plan {

// `gaps` lie over the stage `peak` and are sorted by maker. The answer holds rising positions in `gaps`, its begin and
// end among them. To recompute values from one of these positions on takes, of the values made before it, only those
// for which crosses() is true; they are few and alive at the peak.
std::vector<size_t> find_waists(const Drops& drops, std::span<const Gap> gaps, int32_t peak);

// Whether the value is needed to recompute what is made at `position` or after it.
bool crosses(const Drops& drops, std::span<const Gap> gaps, const Gap& value, size_t position);

}  // namespace plimsoll::plan
