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
// Throws Error(BadData) naming the file and the line. Does not check the plan.
PlanFile read_plan(const std::string& path);

// What the plan of the file does, and whether it is valid: `fault` is the result of plan::check, empty for a valid
// plan.
std::string plan_file_text(const PlanFile& file, const std::string& fault, const PlanTextOptions& options = {});
std::string plan_file_json(const PlanFile& file, const std::string& fault, const std::string& path,
                           int indent = kOneLine);

}  // namespace plimsoll::report
