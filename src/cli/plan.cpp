// plimsoll plan: how the training fits, before any data is touched or any tensor allocated.
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/plan_report.h"
#include "cli/verbs.h"
#include "plan/text.h"

namespace plimsoll {
namespace {

// Problem and plan in one file, each in its text form.
void dump_plan(const PlannedStep& step, const std::string& path) {
  std::ofstream file(path);
  file << to_text(step.program.problem) << to_text(step.plan, step.program.problem);
  file.flush();
  if (!file) throw Error(fmt::format("'{}' can't be written", path), ErrorKind::DiskFull);
}

}  // namespace

int run_plan(const Settings& settings) {
  if (settings.curve) return run_curve(settings);
  const auto load = make_workload(settings, Purpose::Train);
  if (!settings.dump.empty()) dump_plan(load->session->steps().front(), settings.dump);
  if (settings.json)
    fmt::print("{}\n", plan_json(*load).dump(2));
  else
    fmt::print("{}", plan_text(*load, settings.all ? std::numeric_limits<size_t>::max() : 10));
  return 0;
}

}  // namespace plimsoll
