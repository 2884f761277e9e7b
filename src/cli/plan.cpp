// plimsoll plan: how the training fits, or the inference of a model that can't be trained, before any sample is read or
// any tensor allocated.
#include <omp.h>

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "cli/ranks.h"
#include "cli/replicas.h"
#include "cli/verbs.h"
#include "forecast/batch_search.h"
#include "forecast/scale.h"
#include "report/plan_file.h"
#include "store/model_file.h"
#include "together/join_ranks.h"

namespace plimsoll::cli {
namespace {

constexpr int kCurvePoints = 20;

int run_curve(const Arguments& arguments) {
  const report::Curve curve = train::plan_curve(spec_to_plan(arguments), kCurvePoints, is_stop_asked);
  fmt::print("{}", arguments.json ? report::curve_json(curve, kIndent) + "\n" : report::curve_text(curve));
  return 0;
}

// The number of ranks to plan for; 0: the plan is for one process.
int paper_ranks(const Arguments& arguments) {
  const auto refuse = [](const char* why) { throw Error(why, ErrorKind::Usage); };
  if (arguments.ranks.empty() && arguments.network_text.empty()) return 0;
  if (arguments.ranks.empty()) refuse("--network is the speed between ranks: give --ranks N with it");
  if (arguments.network_text.empty())
    refuse("a plan for ranks needs the speed of their network: give --network 10Gb/s, or 10Gb/s,50us");
  if (arguments.curve) refuse("--curve is about one process: give it without --ranks");
  if (arguments.auto_batch) refuse("the batch of all ranks must be known: give --batch instead of --auto-batch");
  return count_ranks(arguments);
}

// Where the plan is refused, the table of scaling still shows how many ranks would be enough.
std::unique_ptr<train::Training> plan_or_show_scale(const train::Spec& spec,
                                                    const std::optional<report::ScaleFacts>& scale, bool as_json) {
  try {
    return forecast::make_sized_training(spec, is_stop_asked);
  } catch (const DoesNotFit&) {
    if (scale && !as_json) fmt::print("{}", report::scale_text(*scale));
    throw;
  }
}

// The plans of all replicas under their line, as they make them in turn.
std::vector<std::unique_ptr<train::Training>> plan_replicas(const Arguments& arguments, train::Spec spec) {
  together::ReplicaLine line(line_of_replicas(arguments), arguments.replicas);
  spec.own_line = line.line();
  spec.line = 0;
  spec.log_bytes += together::kBytesOfReplica;
  const int threads = arguments.threads > 0 ? arguments.threads : omp_get_max_threads();
  spec.threads = std::max(1, (threads + arguments.replicas - 1) / arguments.replicas);
  std::vector<std::unique_ptr<train::Training>> all;
  try {
    for (const auto& replica : ranks::make_replicas(arguments.replicas)) {
      spec.communicator = replica;
      line.plan(replica->rank(), [&] { all.push_back(forecast::make_sized_training(spec, is_stop_asked)); });
    }
  } catch (const DoesNotFit& e) {
    throw Error(e.what(), ErrorKind::DoesNotFit);  // remedies are searched for one process
  }
  return all;
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
    if (!given.memory.empty())
      arguments.memory = line_of_rank(given.memory, communicator->rank(), communicator->size());
    train::Spec spec = spec_to_plan(arguments);
    spec.communicator = communicator;
    try {
      const auto training = forecast::make_sized_training(spec, is_stop_asked);
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

// A model without a training pass is planned for evaluation.
train::Spec spec_to_plan(const Arguments& arguments) {
  train::Spec spec = spec_with_data(arguments, train::Purpose::Train);
  if (spec.stored_model && !spec.stored_model->spec.can_train) spec.purpose = train::Purpose::Evaluate;
  const int ranks = arguments.pipeline.empty() ? paper_ranks(arguments) : 0;
  if (ranks == 0) return spec;
  spec.network = ranks::parse_network(arguments.network_text);
  spec.log_bytes += together::kBytesOfRank;
  return forecast::on_paper(spec, ranks);
}

int run_plan(const Arguments& arguments) {
  if (!arguments.pipeline.empty()) return run_plan_stages(arguments);
  const int ranks = paper_ranks(arguments);
  if (arguments.curve) return run_curve(arguments);
  const train::Spec spec = spec_to_plan(arguments);
  std::optional<report::ScaleFacts> scale;
  if (arguments.replicas > 1) expect_replicas_fit(arguments);
  if (ranks > 0) scale = forecast::plan_scale(spec, ranks, is_stop_asked);
  std::vector<std::unique_ptr<train::Training>> trainings;
  if (arguments.replicas > 1)
    trainings = plan_replicas(arguments, spec);
  else
    trainings.push_back(plan_or_show_scale(spec, scale, arguments.json));
  const train::Training& training = *trainings.front();
  if (!arguments.dump.empty()) dump(training, arguments.dump);
  report::PlanFacts facts = train::plan_facts(training);
  if (arguments.replicas > 1) facts.peak_bytes = training.line->used();
  facts.lower_bound = train::find_lower_bound(training);
  facts.scale = scale;
  const size_t most = arguments.all ? std::numeric_limits<size_t>::max() : 10;
  fmt::print("{}",
             arguments.json ? report::plan_json(facts, kIndent) + "\n" : report::plan_text(facts, {most, "--all"}));
  return 0;
}

}  // namespace plimsoll::cli
