#include "train/forecast.h"

#include "report/forecast.h"
#include "train/batch_search.h"

namespace plimsoll::train {
namespace {

// Planning under an impossible line gives the smallest one that works.
Bytes find_smallest_line(const Spec& spec, const Training& training, const StopQuestion& is_stop_asked) {
  Spec low = spec;
  low.line = 1;
  low.batch = training.batch;
  low.finds_batch = false;
  const Attempt tried = attempt(low, is_stop_asked);
  return tried.refusal ? verify_smallest_line(low, *tried.refusal, is_stop_asked).smallest_line : 0;
}

}  // namespace

std::vector<report::RemedyRow> remedy_rows(const Spec& spec, const std::vector<PlannedRemedy>& remedies) {
  std::vector<report::RemedyRow> rows;
  for (const PlannedRemedy& remedy : remedies)
    rows.push_back({describe_difference(spec, remedy.spec), "", remedy.what, remedy.slowdown, remedy.changes_results,
                    remedy.is_lossy, remedy.scratch_file_bytes});
  return rows;
}

Forecast forecast(const Spec& spec, const ForecastOptions& options) {
  const Attempt tried = attempt(spec, options.is_stop_asked);
  if (tried.training) {
    report::PlanFacts facts = plan_facts(*tried.training);
    if (options.finds_smallest_line) {
      facts.lower_bound = find_lower_bound(*tried.training);
      facts.smallest_line = find_smallest_line(spec, *tried.training, options.is_stop_asked);
    }
    return report::make_forecast(facts);
  }
  // No smallest line: the machine has less memory than the line, so no other line helps.
  if (tried.refusal->smallest_line == 0) return report::make_forecast(*tried.refusal);
  const Refusal refusal =
      options.finds_smallest_line ? verify_smallest_line(spec, *tried.refusal, options.is_stop_asked) : *tried.refusal;
  if (!options.finds_remedies) return report::make_forecast(refusal);
  const auto remedies = find_remedies(spec, refusal, options.may_go_on, options.is_stop_asked);
  return report::make_forecast(refusal, remedy_rows(spec, remedies));
}

}  // namespace plimsoll::train
