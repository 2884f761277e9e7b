#include "forecast/forecast.h"

#include <algorithm>

#include "forecast/batch_search.h"
#include "report/forecast.h"

namespace plimsoll::forecast {
namespace {

// Planning under an impossible line gives the smallest one that works.
Bytes find_smallest_line(const train::Spec& spec, const StopQuestion& is_stop_asked) {
  train::Spec low = spec;
  low.line = 1;
  if (spec.own_line) low.line += spec.own_line->used() - spec.own_line->process_bytes();  // others hold that
  const Attempt tried = attempt(low, is_stop_asked);
  if (!tried.refusal || tried.refusal->smallest_line > spec.planning_line) return spec.planning_line;
  return std::min(spec.planning_line, verify_smallest_line(low, *tried.refusal, is_stop_asked).smallest_line);
}

}  // namespace

std::vector<report::RemedyRow> remedy_rows(const train::Spec& spec, const std::vector<PlannedRemedy>& remedies) {
  std::vector<report::RemedyRow> rows;
  for (const PlannedRemedy& remedy : remedies)
    rows.push_back({train::describe_difference(spec, remedy.spec), "", remedy.what, remedy.slowdown,
                    remedy.changes_results, remedy.is_lossy, remedy.scratch_file_bytes});
  return rows;
}

// Each planning ends before the next begins, so that all of them together stay within the line.
Forecast forecast(const train::Spec& asked, const ForecastOptions& options) {
  train::Spec spec = asked;
  spec.planning_line = train::resolve_line(asked).bytes;
  const Bytes peak_before = peak_resident_bytes();
  const Bytes smallest_line = options.finds_smallest_line ? find_smallest_line(spec, options.is_stop_asked) : 0;
  const Attempt tried = attempt(spec, options.is_stop_asked);
  if (tried.training) {
    report::PlanFacts facts = train::plan_facts(*tried.training);
    facts.smallest_line = smallest_line;
    if (options.finds_smallest_line) facts.lower_bound = train::find_lower_bound(*tried.training);
    if (const Bytes peak = peak_resident_bytes(); tried.training->line->covers_process() && peak > peak_before)
      facts.peak_bytes = std::max(facts.peak_bytes, std::min(round_up(peak, kProcessQuantum), spec.planning_line));
    return report::make_forecast(facts);
  }
  // No smallest line: the machine has less memory than the line, so no other line helps.
  if (tried.refusal->smallest_line == 0) return report::make_forecast(*tried.refusal);
  const Refusal refusal =
      options.finds_smallest_line ? verify_smallest_line(spec, *tried.refusal, options.is_stop_asked) : *tried.refusal;
  if (!options.finds_remedies) return report::make_forecast(refusal);
  std::vector<std::string> not_tried;
  const MayGoOn may_go_on = options.may_go_on ? options.may_go_on : within_seconds(kSecondsOfRemedies);
  const auto remedies = find_remedies(spec, refusal, may_go_on, options.is_stop_asked, &not_tried);
  return report::make_forecast(refusal, remedy_rows(spec, remedies), not_tried);
}

}  // namespace plimsoll::forecast
