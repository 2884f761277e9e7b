// plimsoll inspect on a dumped plan: what it does, and whether it holds.
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/plan_dump.h"
#include "cli/plan_words.h"
#include "cli/verbs.h"
#include "plan/check/check.h"

namespace plimsoll::cli {

int inspect_plan(const Settings& settings) {
  const PlanFile file = read_plan(settings.model);
  const std::string fault = check(file.problem, file.plan, file.limits);
  const plan::Plan& plan = file.plan;
  // What a faulty plan says of itself may point nowhere.
  const bool holds = fault.empty();
  if (settings.json) {
    nlohmann::json json{{"event", "inspect"},
                        {"version", 1},
                        {"file", settings.model},
                        {"problem", file.problem.name},
                        {"batch", file.limits.batch},
                        {"limit_bytes", file.limits.bytes},
                        {"arena_bytes", plan.arena_bytes},
                        {"parts", plan.part_samples},
                        {"tasks", file.problem.tasks.size()},
                        {"steps", plan.steps.size()},
                        {"predicted_step_ns", plan.predicted_ns},
                        {"unconstrained_step_ns", plan.unconstrained_ns},
                        {"exactness", std::string(name_of(plan.exactness))},
                        {"decisions", decisions_json(plan)},
                        {"holds", holds},
                        {"fault", fault}};
    if (holds) json["peak_task"] = peak_task(file.problem, plan);
    fmt::print("{}\n", json.dump(2));
    return holds ? 0 : 1;
  }
  fmt::print("plan    {} · batch {} · {} tasks in {} steps\n", file.problem.name, file.limits.batch,
             file.problem.tasks.size(), plan.steps.size());
  fmt::print(
      "arena   {} of {}\n", format_exact_bytes(plan.arena_bytes),
      file.limits.bytes == std::numeric_limits<Bytes>::max() ? "no limit" : format_exact_bytes(file.limits.bytes));
  if (holds) {
    fmt::print("holds   {}\n", holders_text(plan.peak_by_tag));
    fmt::print("does    {}\n", actions_text(file.problem, plan, ""));
  }
  fmt::print("{}", decisions_text(plan, settings.all ? std::numeric_limits<size_t>::max() : 10));
  fmt::print("time    predicted {}\n", time_text(plan));
  if (holds) fmt::print("peak    at {}\n", peak_task(file.problem, plan));
  fmt::print("check: {}\n", holds ? "holds" : fault);
  return holds ? 0 : 1;
}

}  // namespace plimsoll::cli
