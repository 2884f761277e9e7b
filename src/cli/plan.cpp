// plimsoll plan: how the training fits, before any sample is read or any tensor allocated.
#include <limits>

#include <fmt/format.h>

#include "cli/verbs.h"
#include "report/plan_file.h"
#include "train/batch_search.h"

namespace plimsoll::cli {
namespace {

constexpr int kCurvePoints = 20;

int run_curve(const Arguments& arguments) {
  const report::Curve curve =
      train::plan_curve(spec_with_data(arguments, train::Purpose::Train), kCurvePoints, is_stop_asked);
  fmt::print("{}", arguments.json ? report::curve_json(curve, kIndent) + "\n" : report::curve_text(curve));
  return 0;
}

void dump(const train::Training& training, const std::string& path) {
  const report::ResultChanges& changes = training.changes;
  std::string name = training.model.name();
  if (changes.is_lossy()) name += ", " + report::storage_text(changes.values, changes.state_bits, changes.frozen);
  const session::PlannedStep& step = training.main_step();
  report::write_plan(step.limits, step.program.problem, step.plan, name, path);
}

}  // namespace

int run_plan(const Arguments& arguments) {
  if (arguments.curve) return run_curve(arguments);
  const auto training = train::make_sized_training(spec_with_data(arguments, train::Purpose::Train), is_stop_asked);
  if (!arguments.dump.empty()) dump(*training, arguments.dump);
  report::PlanFacts facts = train::plan_facts(*training);
  facts.lower_bound = train::find_lower_bound(*training);
  const size_t most = arguments.all ? std::numeric_limits<size_t>::max() : 10;
  fmt::print("{}",
             arguments.json ? report::plan_json(facts, kIndent) + "\n" : report::plan_text(facts, {most, "--all"}));
  return 0;
}

}  // namespace plimsoll::cli
