#include "report/plan_file.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "memory/file.h"
#include "memory/output_file.h"
#include "plan/text/text.h"
#include "report/json.h"

namespace plimsoll::report {
namespace {

constexpr std::string_view kFirstLine = "plimsoll plan 1\n";
constexpr std::string_view kLastLine = "end\n";  // a file without it was cut off

constexpr Bytes kLargestFile = 64 * MiB;  // several times that of a plan with tens of thousands of actions

struct Section {
  std::string_view text;
  int64_t lines_before;  // in the file
};

// From the line that starts with `begin` to the one that starts with `end`.
Section section(std::string_view text, std::string_view begin, std::string_view end) {
  const auto find = [&](std::string_view word) {
    const size_t at = text.find("\n" + std::string(word));
    if (at == std::string_view::npos)
      throw Error(fmt::format("the line '{}' is missing", word.substr(0, word.find_first_of(" \n"))),
                  ErrorKind::BadData);
    return at + 1;
  };
  const size_t first = find(begin);
  const size_t last = find(end);
  if (last < first) throw Error(fmt::format("'{}' stands before '{}'", end, begin), ErrorKind::BadData);
  return {text.substr(first, last - first), std::count(text.begin(), text.begin() + static_cast<int64_t>(first), '\n')};
}

std::string read_all(const std::string& path) {
  const memory::File file = memory::File::open(path);
  const Bytes bytes = file.size();
  if (bytes > kLargestFile)
    throw Error(fmt::format("{}: {} are more than a plan takes", path, format_bytes(bytes)), ErrorKind::BadData);
  std::string text(static_cast<size_t>(bytes), '\0');
  text.resize(static_cast<size_t>(file.read_some(0, bytes, text.data(), path)));
  return text;
}

}  // namespace

void write_plan(const plan::Limits& limits, const plan::Problem& problem, const plan::Plan& plan,
                const std::string& name, const std::string& path) {
  plan::Problem named = problem;
  named.name = name;
  memory::OutputFile file(path);
  file.write(kFirstLine);
  file.write(plan::to_text(limits));
  file.write(to_text(named));
  file.write(to_text(plan, named));
  file.write(kLastLine);
  file.finish();
}

bool is_plan_file(const std::string& path) {
  std::string start(kFirstLine.size() - 3, '\0');  // without the version
  const Bytes got = memory::File::open(path).read_some(0, static_cast<Bytes>(start.size()), start.data(), path);
  return got == static_cast<Bytes>(start.size()) && kFirstLine.starts_with(start);
}

PlanFile read_plan(const std::string& path) {
  const std::string text = read_all(path);
  try {
    if (text.compare(0, kFirstLine.size(), kFirstLine) != 0)
      throw Error("line 1: a plan of another version, or none", ErrorKind::BadData);
    if (text.size() < kLastLine.size() + 1 || text.substr(text.size() - kLastLine.size() - 1) != "\nend\n")
      throw Error("the file is truncated: its last line is not 'end'", ErrorKind::BadData);
    PlanFile plan;
    const Section limits = section(text, "limits\n", "problem ");
    const Section problem = section(text, "problem ", "plan ");
    const Section steps = section(text, "plan ", "end\n");
    plan.limits = plan::parse_limits(limits.text, limits.lines_before);
    plan.problem = plan::parse_problem(problem.text, problem.lines_before);
    plan.plan = parse_plan(steps.text, plan.problem, steps.lines_before);
    return plan;
  } catch (const Error& e) {
    throw Error(fmt::format("'{}': {}; write the plan again", path, e.what()), ErrorKind::BadData);
  }
}

std::string plan_file_text(const PlanFile& file, const std::string& fault, const PlanTextOptions& options) {
  const plan::Plan& plan = file.plan;
  // Numbers of a faulty plan may be out of range.
  const bool holds = fault.empty();
  std::string text = fmt::format("plan    {} · batch {} · {} tasks in {} actions\n", file.problem.name,
                                 file.limits.batch, file.problem.tasks.size(), plan.actions.size());
  const bool is_limited = file.limits.bytes != std::numeric_limits<Bytes>::max();
  text += fmt::format("arena   {} of {}\n", format_exact_bytes(plan.arena_bytes),
                      is_limited ? format_exact_bytes(file.limits.bytes) : "no limit");
  if (holds) {
    text += fmt::format("holds   {}\n", holders_text(plan.peak_by_tag));
    text += fmt::format("does    {}\n", actions_text(file.problem, plan, ""));
  }
  text += decisions_text(plan, options.most_decisions, options.see_all);
  text += fmt::format("time    predicted {}\n", time_text(plan));
  if (holds) text += fmt::format("peak    at {}\n", peak_task(file.problem, plan));
  return text + fmt::format("check: {}\n", holds ? "holds" : fault);
}

std::string plan_file_json(const PlanFile& file, const std::string& fault, const std::string& path, int indent) {
  const plan::Plan& plan = file.plan;
  nlohmann::json json{{"event", "inspect"},
                      {"version", 1},
                      {"file", path},
                      {"problem", file.problem.name},
                      {"batch", file.limits.batch},
                      {"limit_bytes", file.limits.bytes},
                      {"arena_bytes", plan.arena_bytes},
                      {"micro_batches", plan.micro_batches},
                      {"tasks", file.problem.tasks.size()},
                      {"steps", plan.actions.size()},
                      {"predicted_step_ns", plan.predicted_ns},
                      {"unconstrained_step_ns", plan.unconstrained_ns},
                      {"exactness", std::string(name_of(plan.exactness))},
                      {"decisions", decisions_json(plan)},
                      {"holds", fault.empty()},
                      {"fault", fault}};
  if (fault.empty()) json["peak_task"] = peak_task(file.problem, plan);
  return json.dump(indent);
}

}  // namespace plimsoll::report
