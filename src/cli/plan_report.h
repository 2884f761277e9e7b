// Plans for people and for programs.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <plimsoll/error.h>
#include "cli/workload.h"

namespace plimsoll::cli {

// What no plan of this training goes below, whatever it does: the whole process, and the task that says so.
struct SmallestLine {
  Bytes bytes = 0;
  std::string reason;
};
// Looks at parts of the batch too, which a plan that fits at once did not need to.
SmallestLine find_smallest_line(const Workload& load);

// With the largest decisions, at most so many.
std::string plan_text(const Workload& load, size_t most_decisions, const std::optional<SmallestLine>& smallest = {});
nlohmann::json plan_json(const Workload& load, const std::optional<SmallestLine>& smallest = {});
nlohmann::json refusal_json(const Refusal& refusal);

}  // namespace plimsoll::cli
