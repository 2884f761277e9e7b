// Which buffers may live in the scratch file: a fixed list of choices, from none to all.
#pragma once

#include <vector>

#include "plan/limits.h"
#include "plan/search/split.h"
#include "plan/search/staged.h"

namespace plimsoll::plan {

enum class Stores : uint8_t {
  All,
  Few,    // none, all variables, and these with all values: for options that use micro-batches or variants too
  Finer,  // shares of variables between those of All, without those of All
};

// The optimiser's state is stored first, since a step touches it once; then weights. Values are stored where that is
// faster than recomputing them. The first choice stores nothing, unless the limits name variables that are stored.
std::vector<Stored> list_stores(const Problem& problem, const Limits& limits, const Split& split, Stores which);

}  // namespace plimsoll::plan
