// The flags of a training by several ranks.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace plimsoll::cli {

void add_rank_flags(CLI::App& app, Arguments& arguments);
// Of these, the ones that a plan for such ranks takes.
void add_pipeline_flags(CLI::App& app, Arguments& arguments);

}  // namespace plimsoll::cli
