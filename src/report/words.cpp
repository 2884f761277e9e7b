#include "report/words.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace plimsoll::report {
namespace {

std::string time_of(double ns) {
  if (ns < 1e6) return fmt::format("{:.3g} µs", ns / 1e3);
  return ns < 1e9 ? fmt::format("{:.3g} ms", ns / 1e6) : fmt::format("{:.3g} s", ns / 1e9);
}

// "weights and optimiser state", as far as there are both.
std::string streamed_kinds(const plan::Problem& problem, const plan::Plan& plan) {
  bool state = false;
  bool weights = false;
  for (const plan::BufferId id : plan.stored)
    (problem.buffers[static_cast<size_t>(id)].tag == Tag::Optimiser ? state : weights) = true;
  return state && weights ? "weights and optimiser state" : state ? "optimiser state" : "weights";
}

}  // namespace

std::string storage_text(DType values, int state_bits, DType frozen) {
  std::vector<std::string> parts;
  if (values != DType::F32) parts.push_back(fmt::format("values in {}", name_of(values)));
  if (state_bits < 32) parts.push_back(fmt::format("optimiser state in {} bits", state_bits));
  if (frozen != DType::F32) parts.push_back(fmt::format("frozen weights in {}", name_of(frozen)));
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string grouped_text(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > (number < 0 ? 1 : 0); i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string percent_more(double now, double before) {
  return fmt::format("{:+.1f} %", before > 0 ? 100 * (now / before - 1) : 0.0);
}

std::string exactness_word(const plan::Plan& plan, const ResultChanges& changes) {
  if (changes.is_lossy()) return "lossy";
  if (changes.splits_the_norm && plan.micro_batches.size() > 1) return "differs";
  return std::string(name_of(plan.exactness));
}

std::string exactness_text(const plan::Plan& plan, const ResultChanges& changes) {
  std::string storage = storage_text(changes.values, changes.state_bits, changes.frozen);
  if (changes.half_products) storage += fmt::format("{}products in bf16", storage.empty() ? "" : ", ");
  if (changes.splits_the_norm && plan.micro_batches.size() > 1)
    return fmt::format("differ: batch_norm takes each micro-batch for a batch{}, as asked",
                       changes.is_lossy() ? ", " + storage : "");
  if (changes.is_lossy()) {
    const bool whole = plan.exactness == plan::Exactness::BitIdentical;
    return fmt::format("differ: {}, as asked ({} under every line)", storage,
                       whole ? "the same" : "up to rounding the same");
  }
  switch (plan.exactness) {
    case plan::Exactness::BitIdentical:
      return "bit-identical";
    case plan::Exactness::WithinTolerance:
      return plan.micro_batches.size() > 1 ? "equal up to rounding (in micro-batches; within 1e-4 in a few steps)"
                                           : "equal up to rounding";
  }
  return "unknown";
}

std::string actions_text(const plan::Problem& problem, const plan::Plan& plan, const std::string& scratch_folder,
                         const ResultChanges& changes) {
  const plan::Tally tally = count_work(problem, plan);
  const std::string folder = scratch_folder.empty() ? "the scratch file" : scratch_folder;
  std::string text = plan.micro_batches.size() > 1 ? fmt::format("in {} micro-batches of {} samples · ",
                                                                 plan.micro_batches.size(), plan.micro_batches.front())
                                                   : "batch whole · ";
  text += tally.reruns > 0 ? fmt::format("recomputes {} {} ({}) · ", tally.reruns, tally.reruns == 1 ? "task" : "tasks",
                                         percent_more(plan.unconstrained_ns + tally.rerun_ns, plan.unconstrained_ns))
                           : "nothing recomputed · ";
  if (tally.variants > 0)
    text += fmt::format("{} {} with less workspace ({}) · ", tally.variants, tally.variants == 1 ? "task" : "tasks",
                        percent_more(plan.unconstrained_ns + tally.variant_ns, plan.unconstrained_ns));
  if (tally.streamed_bytes > 0)
    text += fmt::format("streams {} of {} through {} · ", format_bytes(tally.streamed_bytes),
                        streamed_kinds(problem, plan), folder);
  if (tally.spilled_bytes > 0)
    text += fmt::format("spills {} of values to {} · ", format_bytes(tally.spilled_bytes), folder);
  if (tally.streamed_bytes + tally.spilled_bytes == 0) text += "nothing spilled · ";
  return text + "results " + exactness_text(plan, changes);
}

std::string time_text(const plan::Plan& plan) {
  return fmt::format("{} a step, {} against {} unconstrained", time_of(plan.predicted_ns),
                     percent_more(plan.predicted_ns, plan.unconstrained_ns), time_of(plan.unconstrained_ns));
}

std::string limit_text(const plan::Problem& problem, const plan::Plan& plan, Bytes overhead) {
  if (plan.predicted_ns <= plan.unconstrained_ns) return "";
  constexpr double kMost = 0.9;  // the disk is named as the limit when it is busy for this share of the step
  std::string text = "memory";
  if (const double disk_ns = busy_ns(problem, plan, plan::Lane::Disk); disk_ns >= kMost * plan.predicted_ns) {
    Bytes moved = 0;
    for (const plan::Action& step : plan.actions)
      if (is_transfer(problem, step)) {
        const plan::BufferId id = moved_by(task_of(problem, plan, step));
        moved += placed_bytes(problem.buffers[static_cast<size_t>(id)], plan.micro_batches.front());
      }
    text = fmt::format("the disk, which moves {} in a step and takes {} for it", format_bytes(moved), time_of(disk_ns));
  }
  const plan::Tally tally = count_work(problem, plan);
  const bool is_plain =
      tally.reruns + tally.variants + tally.saves + tally.loads == 0 && plan.micro_batches.size() == 1;
  if (is_plain && busy_ns(problem, plan, plan::Lane::Network) > 0)
    return "the network, for which the update waits; more memory would not help";
  if (plan.next_faster_bytes == 0) return text + "; no faster plan was found";
  return fmt::format("{}; the next faster plan found needs a line of {}", text,
                     format_bytes(plan.next_faster_bytes + overhead));
}

std::string network_text(const plan::Problem& problem, const plan::Plan& plan) {
  int64_t sums = 0;
  Bytes bytes = 0;
  for (const plan::Action& action : plan.actions) {
    const plan::Task& task = task_of(problem, plan, action);
    if (task.lane != plan::Lane::Network || task.updates.empty()) continue;
    ++sums;
    bytes += problem.buffers[static_cast<size_t>(task.updates.front())].fixed_bytes;
  }
  if (sums == 0) return "";
  return fmt::format("{} exchanges of {} in all, predicted {} beside the computation", sums, format_bytes(bytes),
                     time_of(busy_ns(problem, plan, plan::Lane::Network)));
}

std::string decisions_text(const plan::Plan& plan, size_t most, const std::string& see_all) {
  std::string text;
  for (size_t i = 0; i < std::min(most, plan.decisions.size()); ++i) {
    const plan::Decision& decision = plan.decisions[i];
    text += fmt::format("        {} saves {}, costs {:.1f} ms\n", decision.what, format_bytes(decision.bytes_saved),
                        decision.ns_paid / 1e6);
  }
  if (plan.decisions.size() > most)
    text += fmt::format("        ... and {} more{}\n", plan.decisions.size() - most,
                        see_all.empty() ? "" : fmt::format(" ({})", see_all));
  return text;
}

std::string peak_task(const plan::Problem& problem, const plan::Plan& plan) {
  if (plan.peak_action < 0 || static_cast<size_t>(plan.peak_action) >= plan.actions.size()) return "start";
  const plan::Action& step = plan.actions[static_cast<size_t>(plan.peak_action)];
  const std::string of_micro_batch =
      plan.micro_batches.size() > 1 ? fmt::format(" (micro-batch {})", step.micro_batch + 1) : std::string();
  return task_of(problem, plan, step).name + of_micro_batch;
}

std::string holders_text(const plan::BytesByTag& bytes) {
  std::string text;
  for (size_t i = 0; i < kTagCount; ++i)
    if (bytes[i] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : " · ", name_of(static_cast<Tag>(i)), format_bytes(bytes[i]));
  return text;
}

std::string needs_text(const plan::Problem& problem, plan::TaskId task, int64_t samples, size_t most) {
  if (task < 0 || static_cast<size_t>(task) >= problem.tasks.size())
    return "variables, inputs, outputs and sums are held throughout";
  const plan::Task& work = problem.tasks[static_cast<size_t>(task)];
  std::vector<std::pair<Bytes, std::string>> needs;
  std::vector<char> seen(problem.buffers.size(), 0);
  for (const auto* list : {&work.reads, &work.writes, &work.updates})
    for (const plan::BufferId id : *list) {
      if (std::exchange(seen[static_cast<size_t>(id)], 1) != 0) continue;
      const plan::Buffer& buffer = problem.buffers[static_cast<size_t>(id)];
      needs.emplace_back(placed_bytes(buffer, samples), buffer.name);
    }
  if (const Bytes workspace = workspace_bytes(work, samples); workspace > 0) needs.emplace_back(workspace, "workspace");
  std::stable_sort(needs.begin(), needs.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = work.name + " needs at once ";
  for (size_t i = 0; i < std::min(most, needs.size()); ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", needs[i].second, format_bytes(needs[i].first));
  if (needs.size() > most) text += fmt::format(" and {} more", needs.size() - most);
  return text;
}

}  // namespace plimsoll::report
