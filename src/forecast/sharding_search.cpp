#include "forecast/sharding_search.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "forecast/batch_search.h"
#include "report/words.h"

namespace plimsoll::forecast {
namespace {

// What one kind of sharding takes on one rank, or on the worst of all ranks.
struct Trial {
  bool is_possible = true, fits = true;
  double step_ns = 0;
  Bytes line = 0;  // where it does not fit: the smallest that works
};

Trial plan_here(const train::Spec& spec, const StopQuestion& is_stop_asked) {
  try {
    const Attempt tried = attempt(spec, is_stop_asked);
    if (tried.training) return {true, true, tried.training->main_step().plan.predicted_ns, 0};
    return {true, false, 0, tried.refusal->smallest_line};
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    return {.is_possible = false, .fits = false};  // for example an optimiser whose state can't be cut
  }
}

Trial plan_together(const train::Spec& spec, const StopQuestion& is_stop_asked) {
  const Trial mine = plan_here(spec, is_stop_asked);
  const std::string text = fmt::format("{} {} {} {}", int{mine.is_possible}, int{mine.fits}, mine.step_ns, mine.line);
  Trial worst;
  for (const std::string& one : spec.communicator->gather_texts(text)) {
    std::istringstream words(one);
    Trial theirs;
    words >> theirs.is_possible >> theirs.fits >> theirs.step_ns >> theirs.line;
    worst = {worst.is_possible && theirs.is_possible, worst.fits && theirs.fits,
             std::max(worst.step_ns, theirs.step_ns), std::max(worst.line, theirs.line)};
  }
  return worst;
}

std::string describe(Sharding kind, const Trial& trial) {
  if (!trial.is_possible) return fmt::format("{} is not possible", name_of(kind));
  if (!trial.fits) return fmt::format("{} needs a line of {}", name_of(kind), format_bytes(trial.line));
  return fmt::format("{} takes {:.3g} ms a step", name_of(kind), trial.step_ns / 1e6);
}

}  // namespace

ShardingChoice choose_sharding(const train::Spec& spec, Sharding first, const StopQuestion& is_stop_asked) {
  if (!spec.communicator || spec.communicator->size() == 1) return {Sharding::None, "there are no other ranks"};
  ShardingChoice choice;
  double best_ns = 0;
  for (const Sharding kind : {Sharding::None, Sharding::State, Sharding::Gradients, Sharding::Weights}) {
    if (kind < first) continue;
    train::Spec with = spec;
    with.sharding = kind;
    const Trial trial = plan_together(with, is_stop_asked);
    choice.reason += (choice.reason.empty() ? "" : ", ") + describe(kind, trial);
    if (!trial.fits || (choice.found && trial.step_ns >= best_ns)) continue;
    choice.found = kind;
    best_ns = trial.step_ns;
  }
  return choice;
}

}  // namespace plimsoll::forecast
