// The verbs of the command line with their flags, parsed into one command.
#pragma once

#include <functional>

#include "cli/verbs.h"

namespace CLI {
class App;
}

namespace plimsoll::cli {

struct Command {
  Arguments arguments;
  Arguments demo;  // while they are parsed: the demo has defaults of its own
  PackArguments pack;
  train::Purpose purpose = train::Purpose::Train;
  std::function<int()> run;  // of the verb that was given
};

// Parsing the app fills the command, which must outlive it.
void add_verbs(CLI::App& app, Command& command);

}  // namespace plimsoll::cli
