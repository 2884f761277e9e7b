// The flags of a training by several ranks.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace plimsoll::cli {

void add_rank_flags(CLI::App& app, Arguments& arguments);

}  // namespace plimsoll::cli
