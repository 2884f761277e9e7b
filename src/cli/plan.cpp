// plimsoll plan: how the training fits, or the inference of a model for that alone, before any sample is read or any
// tensor allocated.
#include <limits>

#include <fmt/format.h>

#include "cli/ranks.h"
#include "cli/verbs.h"
#include "report/plan_file.h"
#include "train/batch_search.h"
#include "train/model_file.h"

namespace plimsoll::cli {
namespace {

constexpr int kCurvePoints = 20;

// A model without a training pass is planned for what it can do.
train::Spec spec_to_plan(const Arguments& arguments) {
  train::Spec spec = spec_with_data(arguments, train::Purpose::Train);
  if (spec.stored_model && !spec.stored_model->spec.can_train) spec.purpose = train::Purpose::Evaluate;
  return spec;
}

int run_curve(const Arguments& arguments) {
  const report::Curve curve = train::plan_curve(spec_to_plan(arguments), kCurvePoints, is_stop_asked);
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

// The plan of every rank of a pipeline, without the ranks: planning sends nothing.
int run_plan_stages(const Arguments& given) {
  const auto all = ranks::make_replicas(static_cast<int>(given.pipeline.size()) + 1);
  std::string refusals;
  for (const auto& communicator : all) {
    Arguments arguments = given;
    if (!given.memory.empty()) arguments.memory = line_of_rank(given.memory, *communicator);
    train::Spec spec = spec_to_plan(arguments);
    spec.communicator = communicator;
    try {
      const auto training = train::make_sized_training(spec, is_stop_asked);
      const report::PlanFacts facts = train::plan_facts(*training);
      const size_t most = arguments.all ? std::numeric_limits<size_t>::max() : 3;
      if (!arguments.json) fmt::print("rank {} of {}\n", communicator->rank(), communicator->size());
      fmt::print("{}", arguments.json ? report::plan_json(facts) + "\n" : report::plan_text(facts, {most, "--all"}));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::DoesNotFit) throw;
      refusals += fmt::format("{}rank {}: {}", refusals.empty() ? "" : "\n", communicator->rank(), e.what());
    }
  }
  if (!refusals.empty()) throw Error(refusals, ErrorKind::DoesNotFit);
  return 0;
}

}  // namespace

int run_plan(const Arguments& arguments) {
  if (!arguments.pipeline.empty()) return run_plan_stages(arguments);
  if (arguments.curve) return run_curve(arguments);
  const auto training = train::make_sized_training(spec_to_plan(arguments), is_stop_asked);
  if (!arguments.dump.empty()) dump(*training, arguments.dump);
  report::PlanFacts facts = train::plan_facts(*training);
  facts.lower_bound = train::find_lower_bound(*training);
  const size_t most = arguments.all ? std::numeric_limits<size_t>::max() : 10;
  fmt::print("{}",
             arguments.json ? report::plan_json(facts, kIndent) + "\n" : report::plan_text(facts, {most, "--all"}));
  return 0;
}

}  // namespace plimsoll::cli
