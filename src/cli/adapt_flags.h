// Flags that say what is trained: some weights, or adapters beside them.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace plimsoll::cli {

void add_freeze_flags(CLI::App& verb, Arguments& arguments);
// --rank and the other settings of adapters; adapters are trained where --rank is given.
void add_adapter_flags(CLI::App& verb, Arguments& arguments);
// For a verb that trains adapters in any case and has --adapter.
void expect_adapters(CLI::App& verb);
// --adapter: the folder of trained adapters.
void add_trained_adapter_flag(CLI::App& verb, Arguments& arguments);

}  // namespace plimsoll::cli
