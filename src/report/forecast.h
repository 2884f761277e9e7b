// Makes a Forecast from a planned step, or from its refusal.
#pragma once

#include <vector>

#include <plimsoll/forecast.h>
#include "report/plan_report.h"

namespace plimsoll::report {

Forecast make_forecast(const PlanFacts& facts);
Forecast make_forecast(const Refusal& refusal, const std::vector<RemedyRow>& remedies = {},
                       const std::vector<std::string>& not_tried = {});

}  // namespace plimsoll::report
