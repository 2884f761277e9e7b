// The verbs of the command line with their flags, parsed into one command.
#pragma once

#include <functional>
#include <optional>

#include "cli/verbs.h"

namespace plimsoll::cli {

struct Command {
  Arguments arguments;
  Arguments demo;  // arguments of the verb demo, which has defaults of its own
  PackArguments pack;
  MakeSpec make_spec = nullptr;  // of that verb
  std::function<int()> run;      // of the verb that was given
};

// Fills the command; or the exit code when there is nothing to run: help, the version, wrong use.
std::optional<int> parse_command(int argc, char** argv, Command& command);

}  // namespace plimsoll::cli
