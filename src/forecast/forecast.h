// A Forecast of a training: planned, or refused with what works instead.
#pragma once

#include <plimsoll/forecast.h>
#include "forecast/remedies.h"
#include "report/plan_report.h"

namespace plimsoll::forecast {

constexpr double kSecondsOfRemedies = 1.5;

struct ForecastOptions {
  bool finds_smallest_line = true;  // also when the spec fits: by planning once more
  bool finds_remedies = true;       // when it does not fit
  MayGoOn may_go_on = {};           // unset: the search for remedies ends within kSecondsOfRemedies
  StopQuestion is_stop_asked = never_stops;
};

// Plans; takes no tensor memory and opens no data. Throws Error for a mistake in the spec, never DoesNotFit.
Forecast forecast(const train::Spec& spec, const ForecastOptions& options = {});

// Remedies as rows for a table; `spec` is what was refused.
std::vector<report::RemedyRow> remedy_rows(const train::Spec& spec, const std::vector<PlannedRemedy>& remedies);

}  // namespace plimsoll::forecast
