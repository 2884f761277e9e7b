// Modes of tests/configs: each forces what a planner does only under pressure. Sessions of tests run in the mode that
// PLIMSOLL_TEST_MODE names.
#pragma once

#include <string>
#include <vector>

#include <plimsoll/types.h>
#include "session/engine.h"

namespace plimsoll::testing {

enum class Sign { SmallerArena, Recompute, MicroBatch, Spill };

// One file of tests/configs.
struct Mode {
  std::string name;
  Levers levers;                    // all that the file does not list are off
  bool has_scratch = false;         // a folder for a scratch file is given
  Sign shows = Sign::SmallerArena;  // what the plan of a large enough step has in this mode
  bool keeps_bits = true;
};

std::vector<std::string> mode_names();
Mode read_mode(const std::string& name);  // throws Error on an unknown name, key or value
// The mode that PLIMSOLL_TEST_MODE names; null when it is unset.
const Mode* forced_mode();
// False in a mode that rounds differently: then compare within a tolerance.
bool keeps_bits();

// An engine in the forced mode. Without one, and on a line with a limit (that line is what the test is about), the
// engine is as asked for. In a mode `line` becomes the smallest that works with the mode's levers.
session::Engine make_engine(Graph& graph, MemoryLine& line, const std::vector<session::Request>& requests,
                            const SessionOptions& options = {});
session::Engine make_engine_in(const Mode& mode, Graph& graph, MemoryLine& line,
                               const std::vector<session::Request>& requests, const SessionOptions& options = {});

bool has_sign(const session::Engine& engine, Sign sign);

}  // namespace plimsoll::testing
