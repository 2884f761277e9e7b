// The weights of a pipeline in one file.
#pragma once

#include <set>
#include <string>

#include "train/training.h"

namespace plimsoll::train {

// All ranks call it. The first one, or all of them, write the variables of all ranks in the order of one process,
// beside `path` and rename. Variables are sent in pieces, so that no rank holds those of another. Throws Error:
// DiskFull, BadNumbers.
void save_stage_weights(Training& training, const std::string& path, bool on_all_ranks = false);

// The variables of this rank that one before it holds as well, by name. All ranks call it.
std::set<std::string> list_held_before(Training& training);

}  // namespace plimsoll::train
