#include "cli/plan_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

// The step that needs the most: training where there is any.
const PlannedStep& main_step(const Workload& load) { return load.session->steps().front(); }

Bytes process_peak(const Workload& load) {
  return load.session->arena_bytes() + load.session->runtime_bytes() + load.data_bytes;
}

std::string peak_task(const PlannedStep& step) {
  if (step.plan.peak_step < 0) return "start";
  const TaskId task = step.plan.steps[static_cast<size_t>(step.plan.peak_step)].task;
  return step.program.problem.tasks[static_cast<size_t>(task)].name;
}

std::string percent(Bytes part, Bytes whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// What the plan does to fit, and what that costs.
std::string actions(const PlannedStep& step) {
  const Plan& plan = step.plan;
  size_t runs = 0;
  size_t saves = 0;
  for (const Step& s : plan.steps) {
    runs += s.kind == Step::Kind::Run ? 1 : 0;
    saves += s.kind == Step::Kind::Save ? 1 : 0;
  }
  const size_t tasks = step.program.problem.tasks.size();
  const size_t parts = plan.part_samples.size();
  std::string text = "order, in place and packing · ";
  if (runs > tasks * std::max<size_t>(1, parts))
    text += fmt::format("{} of {} tasks run again ({:+.0f} % time) · ", runs - tasks, tasks,
                        100 * (plan.predicted_ns / plan.unconstrained_ns - 1));
  else
    text += "nothing recomputed · ";
  text += saves > 0 ? fmt::format("{} values spilled · ", saves) : std::string("nothing spilled · ");
  text += parts > 1 ? fmt::format("batch in {} parts · ", parts) : std::string("batch whole · ");
  return text + fmt::format("results {}", name_of(plan.exactness));
}

// The largest decisions, one a line.
std::string decisions_text(const Plan& plan, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, plan.decisions.size()); ++i) {
    const Decision& decision = plan.decisions[i];
    text += fmt::format("        {} saves {}, costs {:.1f} ms\n", decision.what, format_bytes(decision.bytes_saved),
                        decision.ns_paid / 1e6);
  }
  if (plan.decisions.size() > most)
    text += fmt::format("        ... and {} more (--all)\n", plan.decisions.size() - most);
  return text;
}

}  // namespace

std::string plan_text(const Workload& load, size_t most_decisions) {
  const PlannedStep& step = main_step(load);
  const Plan& plan = step.plan;
  const Bytes around = load.session->runtime_bytes() + load.data_bytes;
  std::string text = fmt::format("plan    {} · batch {} · {:L} weights · {} tasks\n", load.spec.name(), load.batch,
                                 count_weights(load.graph), step.program.problem.tasks.size());
  text += fmt::format("line    {}, {}\n", format_exact_bytes(load.line->limit()), load.line_origin.reason);
  std::string holders;
  for (size_t i = 0; i < kTagCount; ++i) {
    const auto tag = static_cast<Tag>(i);
    Bytes bytes = plan.peak_by_tag[i];
    if (tag == Tag::Data) bytes += load.data_bytes;
    if (tag == Tag::Runtime) bytes += load.session->runtime_bytes();
    if (bytes > 0) holders += fmt::format("{}{} {}", holders.empty() ? "" : " · ", name_of(tag), format_bytes(bytes));
  }
  text += "holds   " + holders + "\n";
  text += "does    " + actions(step) + "\n" + decisions_text(plan, most_decisions);
  text += fmt::format("memory  as written {} · planned {} · smallest possible {}\n",
                      format_bytes(plan.unconstrained_bytes + around), format_bytes(plan.arena_bytes + around),
                      format_bytes(plan.lower_bound_bytes + around));
  text += fmt::format("peak    planned {} ({} of the line) at {}\n", format_exact_bytes(process_peak(load)),
                      percent(process_peak(load), load.line->limit()), peak_task(step));
  return text;
}

nlohmann::json plan_json(const Workload& load) {
  const PlannedStep& step = main_step(load);
  const Plan& plan = step.plan;
  const Bytes around = load.session->runtime_bytes() + load.data_bytes;
  nlohmann::json by_tag;
  for (size_t i = 0; i < kTagCount; ++i) by_tag[std::string(name_of(static_cast<Tag>(i)))] = plan.peak_by_tag[i];
  nlohmann::json decisions = nlohmann::json::array();
  for (const Decision& decision : plan.decisions)
    decisions.push_back(
        {{"what", decision.what}, {"bytes_saved", decision.bytes_saved}, {"ns_paid", decision.ns_paid}});
  by_tag["runtime"] = load.session->runtime_bytes();
  by_tag["data"] = plan.peak_by_tag[static_cast<size_t>(Tag::Data)] + load.data_bytes;
  return {{"event", "plan"},
          {"version", 1},
          {"model", load.spec.name()},
          {"batch", load.batch},
          {"weights", count_weights(load.graph)},
          {"tasks", step.program.problem.tasks.size()},
          {"line_bytes", load.line->limit()},
          {"line_reason", load.line_origin.reason},
          {"fits", true},
          {"arena_bytes", load.session->arena_bytes()},
          {"runtime_bytes", load.session->runtime_bytes()},
          {"data_bytes", load.data_bytes},
          {"planned_peak_bytes", process_peak(load)},
          {"unconstrained_bytes", plan.unconstrained_bytes + around},
          {"lower_bound_bytes", plan.lower_bound_bytes + around},
          {"peak_task", peak_task(step)},
          {"predicted_step_ns", plan.predicted_ns},
          {"unconstrained_step_ns", plan.unconstrained_ns},
          {"steps", plan.steps.size()},
          {"exactness", std::string(name_of(plan.exactness))},
          {"decisions", decisions},
          {"by_tag", by_tag}};
}

nlohmann::json fit_json(const Fit& fit) {
  nlohmann::json holders = nlohmann::json::array();
  for (const Holder& holder : fit.holders)
    holders.push_back({{"name", holder.name}, {"tag", std::string(name_of(holder.tag))}, {"bytes", holder.bytes}});
  return {{"event", "plan"},
          {"version", 1},
          {"fits", false},
          {"line_bytes", fit.line},
          {"need_bytes", fit.need},
          {"deficit_bytes", fit.deficit()},
          {"smallest_line_bytes", fit.smallest_line},
          {"runtime_bytes", fit.runtime},
          {"data_bytes", fit.data},
          {"tightest_task", fit.tightest_task},
          {"holders", holders}};
}

}  // namespace plimsoll
