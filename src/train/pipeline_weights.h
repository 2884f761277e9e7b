// The weights of a pipeline in one file.
#pragma once

#include <string>

#include "train/training.h"

namespace plimsoll::train {

// All ranks call it. The first one writes the variables of all, in the order of one process, beside `path` and renames;
// the others send theirs in pieces, so that no rank holds the variables of another. Throws Error: DiskFull, BadNumbers.
void save_stage_weights(Training& training, const std::string& path);

}  // namespace plimsoll::train
