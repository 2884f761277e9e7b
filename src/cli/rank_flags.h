// The flags of a training by several ranks.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace plimsoll::cli {

// Flags of a verb that only measures steps with several ranks.
void add_rank_number_flags(CLI::App& app, Arguments& arguments);
// Flags of a plan for ranks that need not exist.
void add_paper_rank_flags(CLI::App& app, Arguments& arguments);
// Flags of a training.
void add_rank_flags(CLI::App& app, Arguments& arguments);
// Those of a training's flags that a plan takes as well: --pipeline and --micro-batches.
void add_pipeline_flags(CLI::App& app, Arguments& arguments);

}  // namespace plimsoll::cli
