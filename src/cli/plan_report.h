// Plans for people and for programs.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/workload.h"
#include "session/fit.h"

namespace plimsoll {

// With the largest decisions, at most so many.
std::string plan_text(const Workload& load, size_t most_decisions);
nlohmann::json plan_json(const Workload& load);
nlohmann::json fit_json(const Fit& fit);

}  // namespace plimsoll
