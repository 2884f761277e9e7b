// Which buffers may live in the scratch file: a fixed list of choices, from none to all.
#pragma once

#include <vector>

#include "plan/limits.h"
#include "plan/search/split.h"
#include "plan/search/staged.h"

namespace plimsoll::plan {

enum class Stores : uint8_t {
  All,
  Few,    // none, all variables, and these with all values: for a step that is set up in another way to be lower still
  Finer,  // shares between those of All, and none of them
};

// State of the optimiser goes first, which is touched once in a step; then weights; values that are dearer to make
// again than to write and read. The first choice is none, unless the limits name the variables that are stored already.
std::vector<Stored> list_stores(const Problem& problem, const Limits& limits, const Split& split, Stores which);

}  // namespace plimsoll::plan
