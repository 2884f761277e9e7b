#include "report/plan_report.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/json.h"

namespace plimsoll::report {
namespace {

bool planning_is_highest(const PlanFacts& facts) {
  return facts.peak_bytes > facts.arena_bytes + facts.around_arena() + facts.data_more_bytes;
}

std::string percent(Bytes part, Bytes whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

plan::BytesByTag peak_by_tag(const PlanFacts& facts) {
  plan::BytesByTag bytes = facts.plan.peak_by_tag;
  bytes[static_cast<size_t>(Tag::Data)] += facts.data_bytes + facts.data_more_bytes;
  bytes[static_cast<size_t>(Tag::Runtime)] += facts.runtime_bytes;
  return bytes;
}

bool has_line(const PlanFacts& facts) { return facts.line_bytes < std::numeric_limits<Bytes>::max(); }

std::string headline(const PlanFacts& facts) {
  std::string text = "plan    ";
  if (!facts.model.empty()) text += facts.model + " · ";
  text += fmt::format("batch {} · ", facts.batch);
  if (facts.accumulate > 1) text += fmt::format("an update for each {} batches · ", facts.accumulate);
  if (facts.weights > 0) text += grouped_text(facts.weights) + " weights";
  if (facts.frozen.weights > 0)
    text += fmt::format(" ({} trained, {} frozen)", grouped_text(facts.weights - facts.frozen.weights),
                        grouped_text(facts.frozen.weights));
  if (facts.weights > 0) text += " · ";
  text += fmt::format("{} tasks\n", facts.problem.tasks.size());
  return facts.batch_reason.empty() ? text : text + "        " + facts.batch_reason + "\n";
}

std::string more_data_text(const PlanFacts& facts) {
  if (facts.data_more_bytes == 0) return "";
  return fmt::format(" · {} in all, up to {} with what the line has left", format_bytes(facts.data_bytes),
                     format_bytes(facts.data_bytes + facts.data_more_bytes));
}

std::string line_row(const PlanFacts& facts) {
  if (!has_line(facts)) return "line    none\n";
  return fmt::format("line    {}{}{}\n", format_exact_bytes(facts.line_bytes), facts.line_reason.empty() ? "" : ", ",
                     facts.line_reason);
}

std::string ranks_row(const SharingFacts& ranks) {
  const std::string shared = ranks.sharding == "none" ? "share nothing" : "share " + ranks.sharding;
  std::string text =
      fmt::format("ranks   {} {} · each holds weights {} · gradients {} · optimiser {} · receives in {}\n", ranks.ranks,
                  shared, format_bytes(ranks.weight_bytes), format_bytes(ranks.gradient_bytes),
                  format_bytes(ranks.state_bytes), format_bytes(ranks.received_bytes));
  return ranks.reason.empty() ? text : text + "        the fastest that fits on every rank: " + ranks.reason + "\n";
}

std::string other_row(const PlanFacts& facts) {
  if (!facts.other) return "";
  const bool is_whole = facts.other->micro_batches == 1;
  return fmt::format("instead {}: {} of the time, memory {}, results {}\n",
                     is_whole ? "the whole batch at once" : fmt::format("{} micro-batches", facts.other->micro_batches),
                     percent_more(facts.other->predicted_ns, facts.plan.predicted_ns),
                     format_bytes(facts.other->arena_bytes + facts.around_arena()),
                     is_whole ? "bit-identical" : "equal up to rounding");
}

}  // namespace

std::string plan_text(const PlanFacts& facts, const PlanTextOptions& options) {
  const plan::Problem& problem = facts.problem;
  const plan::Plan& plan = facts.plan;
  const Bytes around = facts.around_arena();
  std::string text = headline(facts) + line_row(facts);
  if (!facts.data.path.empty())
    text += fmt::format("data    {}\n        {}{}\n", data_text(facts.data), stages_text(facts.data.stages),
                        more_data_text(facts));
  text += "holds   " + holders_text(peak_by_tag(facts)) + "\n";
  if (facts.ranks.ranks > 1) text += ranks_row(facts.ranks);
  text += "does    " + actions_text(problem, plan, facts.scratch_folder, facts.changes) + "\n" +
          decisions_text(plan, options.most_decisions, options.see_all) + other_row(facts);
  if (facts.half_values > 0)
    text += fmt::format("stores  {} values in {}: {} instead of {}\n", facts.half_values, name_of(facts.changes.values),
                        format_bytes(facts.half_value_bytes), format_bytes(2 * facts.half_value_bytes));
  if (facts.half_products > 0)
    text += fmt::format("bf16    computes {} of {} products, with sums in f32; all else is computed in f32\n",
                        facts.half_products, facts.products);
  if (facts.frozen.weights > 0)
    text += fmt::format("frozen  {} weights in {}, {}: no gradient, no optimiser state, never written back\n",
                        grouped_text(facts.frozen.weights), name_of(facts.changes.frozen),
                        format_bytes(facts.frozen.bytes));
  if (facts.mask_bytes > 0)
    text += fmt::format("prunes  masks take {} of what the optimiser holds, 1 bit for each of {} weights\n",
                        format_bytes(facts.mask_bytes), grouped_text(8 * facts.mask_bytes));
  text += fmt::format("time    predicted {}\n", time_text(plan));
  if (const std::string network = network_text(problem, plan); !network.empty())
    text += fmt::format("network {}\n", network);
  if (const std::string limit = limit_text(problem, plan, facts.overhead_bytes()); !limit.empty())
    text += fmt::format("limit   {}\n", limit);
  if (facts.scratch_file_bytes > 0)
    text += fmt::format("disk    {} in {}\n", format_bytes(facts.scratch_file_bytes), facts.scratch_folder);
  text += fmt::format("memory  as written {} · planned {}", format_bytes(plan.unconstrained_bytes + around),
                      format_bytes(plan.arena_bytes + around));
  // Unset unless all options of the step were searched.
  text += facts.lower_bound ? fmt::format(" · smallest possible {}\n        where {}\n",
                                          format_bytes(facts.lower_bound->bytes), facts.lower_bound->reason)
                            : "\n";
  text +=
      fmt::format("peak    planned {}{} at {}\n", format_exact_bytes(facts.peak_bytes),
                  has_line(facts) ? fmt::format(" ({} of the line)", percent(facts.peak_bytes, facts.line_bytes)) : "",
                  planning_is_highest(facts) ? "planning itself, before the first step" : peak_task(problem, plan));
  if (facts.scale) text += scale_text(*facts.scale);
  return text;
}

std::string plan_json(const PlanFacts& facts, int indent) {
  const plan::Problem& problem = facts.problem;
  const plan::Plan& plan = facts.plan;
  const Bytes around = facts.around_arena();
  const plan::Tally tally = count_work(problem, plan);
  nlohmann::json by_tag;
  const plan::BytesByTag bytes = peak_by_tag(facts);
  for (size_t i = 0; i < kTagCount; ++i) by_tag[std::string(name_of(static_cast<Tag>(i)))] = bytes[i];
  nlohmann::json json{
      {"event", "plan"},
      {"version", 1},
      {"model", facts.model},
      {"batch", facts.batch},
      {"weights", facts.weights},
      {"frozen_weights", facts.frozen.weights},
      {"frozen_bytes", facts.frozen.bytes},
      {"frozen_type", std::string(name_of(facts.changes.frozen))},
      {"tasks", problem.tasks.size()},
      {"line_bytes", facts.line_bytes},
      {"line_reason", facts.line_reason},
      {"fits", true},
      {"arena_bytes", facts.arena_bytes},
      {"runtime_bytes", facts.runtime_bytes},
      {"data_bytes", facts.data_bytes},
      {"data_more_bytes", facts.data_more_bytes},
      {"data", data_json(facts.data)},
      {"planned_peak_bytes", facts.peak_bytes},
      {"unconstrained_bytes", plan.unconstrained_bytes + around},
      {"lower_bound_bytes", facts.lower_bound ? facts.lower_bound->bytes : plan.lower_bound_bytes + around},
      {"peak_task", peak_task(problem, plan)},
      {"predicted_step_ns", plan.predicted_ns},
      {"unconstrained_step_ns", plan.unconstrained_ns},
      {"disk_ns", busy_ns(problem, plan, plan::Lane::Disk)},
      {"network_ns", busy_ns(problem, plan, plan::Lane::Network)},
      {"limited_by", limit_text(problem, plan, facts.overhead_bytes())},
      {"next_faster_line_bytes", plan.next_faster_bytes > 0 ? plan.next_faster_bytes + facts.overhead_bytes() : 0},
      {"steps", plan.actions.size()},
      {"micro_batches", plan.micro_batches},
      {"reruns", tally.reruns},
      {"rerun_ns", tally.rerun_ns},
      {"variants", tally.variants},
      {"variant_ns", tally.variant_ns},
      {"streamed_bytes", tally.streamed_bytes},
      {"spilled_bytes", tally.spilled_bytes},
      {"scratch_file_bytes", facts.scratch_file_bytes},
      {"exactness", exactness_word(plan, facts.changes)},
      {"half_storage",
       {{"values", facts.half_values},
        {"value_type", std::string(name_of(facts.changes.values))},
        {"value_bytes", facts.half_value_bytes},
        {"value_bytes_in_f32", 2 * facts.half_value_bytes},
        {"state", facts.changes.state_bits < 32},
        {"state_bits", facts.changes.state_bits}}},
      {"half_compute", {{"products", facts.products}, {"in_bf16", facts.half_products}}},
      {"accumulate", facts.accumulate},
      {"mask_bytes", facts.mask_bytes},
      {"decisions", decisions_json(plan)},
      {"by_tag", by_tag}};
  if (facts.ranks.ranks > 1)
    json["ranks"] = {{"ranks", facts.ranks.ranks},
                     {"sharding", facts.ranks.sharding},
                     {"sharding_reason", facts.ranks.reason},
                     {"weight_bytes", facts.ranks.weight_bytes},
                     {"gradient_bytes", facts.ranks.gradient_bytes},
                     {"state_bytes", facts.ranks.state_bytes},
                     {"received_bytes", facts.ranks.received_bytes}};
  if (facts.other)
    json["other_plan"] = {{"micro_batches", facts.other->micro_batches},
                          {"predicted_step_ns", facts.other->predicted_ns},
                          {"peak_bytes", facts.other->arena_bytes + around}};
  if (facts.smallest_line > 0) json["smallest_line_bytes"] = facts.smallest_line;
  if (facts.scale) json["scale"] = scale_json(*facts.scale);
  if (facts.lower_bound) json["lower_bound_reason"] = facts.lower_bound->reason;
  if (!facts.batch_reason.empty()) json["batch_reason"] = facts.batch_reason;
  return json.dump(indent);
}

std::string remedies_text(const std::vector<RemedyRow>& remedies, const std::vector<std::string>& not_tried) {
  const std::string rest =
      not_tried.empty() ? "" : fmt::format("not tried, because planning takes long: {}\n", fmt::join(not_tried, ", "));
  if (remedies.empty()) return rest;
  const auto first_column = [](const RemedyRow& row) { return row.flags.empty() ? row.change : row.flags; };
  size_t width = 0;
  for (const RemedyRow& row : remedies) width = std::max(width, first_column(row).size());
  std::string text = "what works instead, planned just now, with the predicted time for a sample against no line:\n";
  for (const RemedyRow& row : remedies)
    text += fmt::format("  {:<{}}  {:>9}  {}\n", first_column(row), width, percent_more(row.slowdown, 1), row.what);
  return text + rest;
}

std::string refusal_json(const Refusal& refusal, const std::vector<RemedyRow>& remedies, int indent,
                         const std::vector<std::string>& not_tried) {
  nlohmann::json holders = nlohmann::json::array();
  for (const Holder& holder : refusal.holders)
    holders.push_back({{"name", holder.name}, {"tag", std::string(name_of(holder.tag))}, {"bytes", holder.bytes}});
  nlohmann::json list = nlohmann::json::array();
  for (const RemedyRow& row : remedies) {
    list.push_back({{"change", row.change},
                    {"what", row.what},
                    {"slowdown", row.slowdown},
                    {"changes_results", row.changes_results},
                    {"lossy", row.is_lossy},
                    {"scratch_file_bytes", row.scratch_file_bytes}});
    if (!row.flags.empty()) list.back()["flags"] = row.flags;
  }
  return nlohmann::json{{"event", "plan"},
                        {"version", 1},
                        {"fits", false},
                        {"line_bytes", refusal.line},
                        {"need_bytes", refusal.need},
                        {"deficit_bytes", refusal.deficit()},
                        {"smallest_line_bytes", refusal.smallest_line},
                        {"runtime_bytes", refusal.runtime},
                        {"data_bytes", refusal.data},
                        {"tightest_task", refusal.tightest_task},
                        {"holders", holders},
                        {"remedies", list},
                        {"not_tried", not_tried}}
      .dump(indent);
}

}  // namespace plimsoll::report
