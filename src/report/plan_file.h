// A plan in a file: limits, problem and plan in their text forms, so that anyone can check it later.
#pragma once

#include <string>

#include "plan/limits.h"
#include "plan/plan.h"
#include "report/plan_report.h"

namespace plimsoll::report {

struct PlanFile {
  plan::Limits limits;
  plan::Problem problem;
  plan::Plan plan;
};

// `name` is that of the problem in the file. Throws what OutputFile throws.
void write_plan(const plan::Limits& limits, const plan::Problem& problem, const plan::Plan& plan,
                const std::string& name, const std::string& path);

bool is_plan_file(const std::string& path);
// Throws Error(BadData) naming the file and the line. Whether the plan holds is for check to say.
PlanFile read_plan(const std::string& path);

// What the file's plan does, and whether it holds: `fault` is the answer of plan::check, empty for a plan that holds.
std::string plan_file_text(const PlanFile& file, const std::string& fault, const PlanTextOptions& options = {});
std::string plan_file_json(const PlanFile& file, const std::string& fault, const std::string& path,
                           int indent = kOneLine);

}  // namespace plimsoll::report
