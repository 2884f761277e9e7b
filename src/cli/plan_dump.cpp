#include "cli/plan_dump.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/text.h"
#include "session/session.h"

namespace plimsoll {
namespace {

constexpr std::string_view kFirstLine = "plimsoll plan 1\n";
constexpr std::string_view kLastLine = "end\n";  // a file without it was cut off

// From the line that starts with `begin` to the one that starts with `end`, after as many empty lines as are before it
// in the file: so a parser names the right line.
std::string section(const std::string& text, std::string_view begin, std::string_view end) {
  const auto find = [&](std::string_view word) {
    const size_t at = text.find("\n" + std::string(word));
    if (at == std::string::npos)
      throw Error(fmt::format("the line '{}' is missing", word.substr(0, word.find_first_of(" \n"))),
                  ErrorKind::BadData);
    return at + 1;
  };
  const size_t first = find(begin);
  const size_t last = find(end);
  if (last < first) throw Error(fmt::format("'{}' stands before '{}'", end, begin), ErrorKind::BadData);
  const auto lines = std::count(text.begin(), text.begin() + static_cast<int64_t>(first), '\n');
  return std::string(static_cast<size_t>(lines), '\n') + text.substr(first, last - first);
}

}  // namespace

void dump_plan(const PlannedStep& step, const std::string& name, const std::string& path) {
  Problem problem = step.program.problem;
  problem.name = name;
  std::ofstream file(path);
  file << kFirstLine << to_text(step.limits) << to_text(problem) << to_text(step.plan, problem) << kLastLine;
  file.flush();
  if (!file) throw Error(fmt::format("'{}' can't be written", path), ErrorKind::DiskFull);
}

bool is_plan_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(kFirstLine.size() - 3, '\0');  // without the version
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file && kFirstLine.substr(0, start.size()) == start;
}

PlanFile read_plan(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    if (text.compare(0, kFirstLine.size(), kFirstLine) != 0)
      throw Error("line 1: a plan of another version, or none", ErrorKind::BadData);
    if (text.size() < kLastLine.size() + 1 || text.substr(text.size() - kLastLine.size() - 1) != "\nend\n")
      throw Error("the file is truncated: its last line is not 'end'", ErrorKind::BadData);
    PlanFile plan;
    plan.limits = parse_limits(section(text, "limits\n", "problem "));
    plan.problem = parse_problem(section(text, "problem ", "plan "));
    plan.plan = parse_plan(section(text, "plan ", "end\n"), plan.problem);
    return plan;
  } catch (const Error& e) {
    throw Error(fmt::format("'{}': {}; write it again with plimsoll plan MODEL --dump FILE", path, e.what()),
                ErrorKind::BadData);
  }
}

}  // namespace plimsoll
