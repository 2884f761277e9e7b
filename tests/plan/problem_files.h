// The problems of the built-in models that bench/plan keeps as text: NAME.problem, and NAME.limits with its batch.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/text/text.h"

namespace plimsoll::testing {

using namespace plan;

struct KeptProblem {
  Problem problem;
  Limits limits;  // no line
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("can't read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline KeptProblem read_kept_problem(const std::string& name) {
  const std::filesystem::path base = std::filesystem::path(PLIMSOLL_PROBLEMS_DIR) / name;
  return {parse_problem(read_text(base.string() + ".problem")), parse_limits(read_text(base.string() + ".limits"))};
}

inline std::vector<std::string> kept_problem_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PLIMSOLL_PROBLEMS_DIR))
    if (entry.path().extension() == ".problem") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace plimsoll::testing
