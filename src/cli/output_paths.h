// What the outputs of a command may not be: its inputs, each other, or places that can't be written.
#pragma once

#include <span>

#include "cli/flag_rules.h"

namespace plimsoll::cli {

// Throws Error(Usage) where an output would replace an input or another output, by whatever name, or could not be
// written as things are. Nothing is left behind.
void check_paths(std::span<const FlagPath> paths);

}  // namespace plimsoll::cli
