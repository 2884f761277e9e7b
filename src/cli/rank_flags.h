// The flags of a training by several ranks.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace plimsoll::cli {

// Of a verb that only measures steps with several ranks.
void add_rank_number_flags(CLI::App& app, Arguments& arguments);
// Of a plan for ranks that need not exist.
void add_paper_rank_flags(CLI::App& app, Arguments& arguments);
// Of a training.
void add_rank_flags(CLI::App& app, Arguments& arguments);
// Of these, the ones that a plan for such ranks takes.
void add_pipeline_flags(CLI::App& app, Arguments& arguments);

}  // namespace plimsoll::cli
