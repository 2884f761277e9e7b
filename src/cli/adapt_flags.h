// Flags that say what is trained: some weights, or adapters beside them.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace plimsoll::cli {

void add_freeze_flags(CLI::App& verb, Arguments& arguments);
// --rank without a default: adapters where it is given.
void add_adapter_flags(CLI::App& verb, Arguments& arguments);
// --adapter: trained ones.
void add_trained_adapter_flag(CLI::App& verb, Arguments& arguments);

}  // namespace plimsoll::cli
