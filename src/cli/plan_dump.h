// A plan in a file: limits, problem and plan in their text forms, so that anyone can check it later.
#pragma once

#include <string>

#include "plan/limits.h"
#include "plan/plan.h"

namespace plimsoll::session {
struct PlannedStep;
}

namespace plimsoll::cli {

struct PlanFile {
  plan::Limits limits;
  plan::Problem problem;
  plan::Plan plan;
};

// Throws what OutputFile throws.
void dump_plan(const session::PlannedStep& step, const std::string& name, const std::string& path);

bool is_plan_file(const std::string& path);
// Throws Error(BadData) naming the file and the line. Whether the plan holds is for check to say.
PlanFile read_plan(const std::string& path);

}  // namespace plimsoll::cli
