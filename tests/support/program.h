// Runs the plimsoll program as a user would and keeps what it printed.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace plimsoll::testing {

struct Outcome {
  int exit_code = -1;
  std::string output;  // standard output
  std::string errors;
  // The first JSON line of that event; null when there is none.
  nlohmann::json event(const std::string& name) const;
};

// `before` goes before the program's name: timeout, a limit ...
Outcome run_program(const std::string& arguments, const std::string& before = "");

}  // namespace plimsoll::testing
