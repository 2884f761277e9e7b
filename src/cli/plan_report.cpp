#include "cli/plan_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/plan_words.h"
#include "plan/make_plan.h"

namespace plimsoll::cli {
namespace {

// The step that needs the most: training where there is any.
const session::PlannedStep& main_step(const Workload& load) { return load.session->steps().front(); }

Bytes around_arena(const Workload& load) { return load.session->runtime_bytes() + load.data_bytes; }

Bytes process_peak(const Workload& load) { return load.session->peak_bytes(); }
bool planning_is_highest(const Workload& load) {
  return process_peak(load) > load.session->arena_bytes() + around_arena(load);
}

std::string percent(Bytes part, Bytes whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

plan::BytesByTag peak_by_tag(const Workload& load) {
  plan::BytesByTag bytes = main_step(load).plan.peak_by_tag;
  bytes[static_cast<size_t>(Tag::Data)] += load.data_bytes;
  bytes[static_cast<size_t>(Tag::Runtime)] += load.session->runtime_bytes();
  return bytes;
}

}  // namespace

SmallestLine find_smallest_line(const Workload& load) {
  const std::vector<plan::Problem> problems = load.session->problems(0);
  std::vector<const plan::Problem*> ways;
  for (const plan::Problem& problem : problems) ways.push_back(&problem);
  const plan::Limits& limits = main_step(load).limits;
  const plan::Floor floor = plan::LineSearch(problems.front(), ways, limits).floor();
  const plan::Problem& problem = problems[floor.problem];
  const int64_t samples = problem.part_samples > 0 ? problem.part_samples : limits.batch;
  std::string reason = needs_text(problem, floor.task, samples, 4);
  if (samples < limits.batch) reason += fmt::format(", in parts of {}", samples);
  return {floor.bytes + around_arena(load), reason};
}

std::string plan_text(const Workload& load, size_t most_decisions, const std::optional<SmallestLine>& smallest) {
  const session::PlannedStep& step = main_step(load);
  const plan::Problem& problem = step.program.problem;
  const plan::Plan& plan = step.plan;
  const Bytes around = around_arena(load);
  std::string text = fmt::format("plan    {} · batch {} · {:L} weights · {} tasks\n", load.spec.name(), load.batch,
                                 count_weights(load.graph), problem.tasks.size());
  if (!load.batch_reason.empty()) text += "        " + load.batch_reason + "\n";
  text += fmt::format("line    {}, {}\n", format_exact_bytes(load.line->limit()), load.line_origin.reason);
  text += "holds   " + holders_text(peak_by_tag(load)) + "\n";
  text += "does    " + actions_text(problem, plan, load.scratch_folder, load.changes) + "\n" +
          decisions_text(plan, most_decisions);
  text += fmt::format("time    predicted {}\n", time_text(plan));
  if (load.session->file_bytes() > 0)
    text += fmt::format("disk    {} in {}\n", format_bytes(load.session->file_bytes()), load.scratch_folder);
  text += fmt::format("memory  as written {} · planned {}", format_bytes(plan.unconstrained_bytes + around),
                      format_bytes(plan.arena_bytes + around));
  // Known only when all ways to set the step up were looked at.
  text += smallest ? fmt::format(" · smallest possible {}\n        where {}\n", format_bytes(smallest->bytes),
                                 smallest->reason)
                   : "\n";
  text += fmt::format("peak    planned {} ({} of the line) at {}\n", format_exact_bytes(process_peak(load)),
                      percent(process_peak(load), load.line->limit()),
                      planning_is_highest(load) ? "planning itself, before the first step" : peak_task(problem, plan));
  return text;
}

nlohmann::json plan_json(const Workload& load, const std::optional<SmallestLine>& smallest) {
  const session::PlannedStep& step = main_step(load);
  const plan::Problem& problem = step.program.problem;
  const plan::Plan& plan = step.plan;
  const Bytes around = around_arena(load);
  const plan::Tally tally = count_work(problem, plan);
  nlohmann::json by_tag;
  const plan::BytesByTag bytes = peak_by_tag(load);
  for (size_t i = 0; i < kTagCount; ++i) by_tag[std::string(name_of(static_cast<Tag>(i)))] = bytes[i];
  nlohmann::json json{{"event", "plan"},
                      {"version", 1},
                      {"model", load.spec.name()},
                      {"batch", load.batch},
                      {"weights", count_weights(load.graph)},
                      {"tasks", problem.tasks.size()},
                      {"line_bytes", load.line->limit()},
                      {"line_reason", load.line_origin.reason},
                      {"fits", true},
                      {"arena_bytes", load.session->arena_bytes()},
                      {"runtime_bytes", load.session->runtime_bytes()},
                      {"data_bytes", load.data_bytes},
                      {"planned_peak_bytes", process_peak(load)},
                      {"unconstrained_bytes", plan.unconstrained_bytes + around},
                      {"lower_bound_bytes", smallest ? smallest->bytes : plan.lower_bound_bytes + around},
                      {"peak_task", peak_task(problem, plan)},
                      {"predicted_step_ns", plan.predicted_ns},
                      {"unconstrained_step_ns", plan.unconstrained_ns},
                      {"steps", plan.steps.size()},
                      {"parts", plan.part_samples},
                      {"reruns", tally.reruns},
                      {"rerun_ns", tally.rerun_ns},
                      {"variants", tally.variants},
                      {"variant_ns", tally.variant_ns},
                      {"streamed_bytes", tally.streamed_bytes},
                      {"spilled_bytes", tally.spilled_bytes},
                      {"scratch_file_bytes", load.session->file_bytes()},
                      {"exactness", exactness_word(plan, load.changes)},
                      {"half_storage", {{"values", step.program.half_values}, {"state", load.changes.half.state}}},
                      {"decisions", decisions_json(plan)},
                      {"by_tag", by_tag}};
  if (smallest) json["lower_bound_reason"] = smallest->reason;
  if (!load.batch_reason.empty()) json["batch_reason"] = load.batch_reason;
  return json;
}

nlohmann::json refusal_json(const Refusal& refusal) {
  nlohmann::json holders = nlohmann::json::array();
  for (const Holder& holder : refusal.holders)
    holders.push_back({{"name", holder.name}, {"tag", std::string(name_of(holder.tag))}, {"bytes", holder.bytes}});
  return {{"event", "plan"},
          {"version", 1},
          {"fits", false},
          {"line_bytes", refusal.line},
          {"need_bytes", refusal.need},
          {"deficit_bytes", refusal.deficit()},
          {"smallest_line_bytes", refusal.smallest_line},
          {"runtime_bytes", refusal.runtime},
          {"data_bytes", refusal.data},
          {"tightest_task", refusal.tightest_task},
          {"holders", holders}};
}

}  // namespace plimsoll::cli
