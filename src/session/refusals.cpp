// Why a step can't be planned, with the smallest line that works.
#include <algorithm>

#include <fmt/format.h>

#include "memory/process.h"
#include "plan/effort.h"
#include "session/planning.h"

namespace plimsoll::session {
namespace {

// The search for a lower need beside a line that leaves no room for it takes at most this much. In time that is about
// as bounded: the effort for each task is counted.
constexpr Bytes kMostSearchOfRefusal = 256 * MiB;

}  // namespace

Refusal StepPlanner::describe(const plan::Problem& problem, const plan::Shortfall& shortfall,
                              Bytes planning_bytes) const {
  const MemoryLine& line = budget_.line();
  Refusal refusal;
  refusal.line = line.limit();
  refusal.others = line.used() - line.process_bytes() - budget_.held_bytes();
  refusal.data = options_.data_bytes;
  refusal.runtime = budget_.runtime_need();
  refusal.need = shortfall.need_bytes + refusal.runtime + refusal.data + refusal.others;
  if (line.covers_process()) {
    const Bytes to_plan = peak_of_planning(planning_bytes);
    if (to_plan > refusal.need)
      refusal.reason = fmt::format("planning the {} tasks of the step takes more than running it: {}",
                                   problem.tasks.size(), format_bytes(planning_bytes));
    refusal.need = round_line(std::max(refusal.need, to_plan) + kProcessQuantum);
  }
  refusal.smallest_line = round_line(refusal.need);
  refusal.holders = shortfall.holders;
  if (shortfall.tightest_task >= 0)
    refusal.tightest_task = problem.tasks[static_cast<size_t>(shortfall.tightest_task)].name;
  return refusal;
}

// Throws with the smallest line that works. Where the line left too little memory for a full search, plans once more if
// that takes little memory, and takes the lower need: what one search finds, planning under the named line finds too.
// Not where the caller's line must be kept.
void StepPlanner::refuse(const PlannedStep& step, std::span<const plan::Problem* const> problems,
                         const plan::Limits& limits, const plan::Choice& choice) const {
  const plan::Problem& whole = step.program.problem;
  Refusal refusal = describe(*problems[choice.problem], std::get<plan::Shortfall>(choice.answer), bytes_to_plan(whole));
  const Bytes to_search = bytes_of_option(whole) + bytes_of_recompute_search(whole);
  if (limits.search_bytes < to_search && to_search <= kMostSearchOfRefusal && planning_line_ == 0 &&
      memory::available_memory_bytes() > 4 * to_search) {
    plan::Limits open = limits;
    open.bytes = 0;
    open.search_bytes = kMostSearchOfRefusal;
    open.levers.variants = false;
    const plan::Problem* const one[] = {&whole};
    const plan::Choice searched = choose_plan(whole, one, open);
    Refusal other = describe(whole, std::get<plan::Shortfall>(searched.answer), to_search + to_search / 3);
    if (other.need < refusal.need) refusal = std::move(other);
  }
  throw DoesNotFit(std::move(refusal));
}

// The overhead has grown and leaves less than the arena that the plans share.
void StepPlanner::refuse_grown(const PlannedStep& step) const {
  plan::Shortfall shortfall;
  shortfall.need_bytes = arena_bytes_ + budget_.left_free();
  throw DoesNotFit(describe(step.program.problem, shortfall, 0));
}

Bytes StepPlanner::bytes_to_plan_another(int64_t tasks) const {
  return tasks * (kBytesOfTask + kBytesOfAction) +
         std::max(kBytesToLowerNode * std::ssize(graph_.nodes()), tasks * plan::kBytesToPlanTask);
}

// Planning beside an open arena must not pass the line either.
void StepPlanner::expect_room_to_plan() const {
  const MemoryLine& line = budget_.line();
  if (!line.covers_process() || steps_.empty()) return;
  const Bytes bytes = bytes_to_plan_another(steps_.front().lowered_tasks);
  if (bytes <= line.free()) return;
  Refusal refusal;
  refusal.line = line.limit();
  refusal.runtime = line.process_bytes();
  refusal.data = options_.data_bytes;
  refusal.need = line.used() + bytes;
  refusal.smallest_line = round_line(refusal.need + kProcessQuantum);
  refusal.reason =
      fmt::format("to plan a step for another batch takes {} beside the arena: plan it before the session opens",
                  format_bytes(bytes));
  throw DoesNotFit(std::move(refusal));
}

// What planning takes is estimated beforehand: where it took more, that is announced, and refused above the line.
void StepPlanner::note_planning_peak(Bytes peak_before) {
  const Bytes peak = peak_resident_bytes(), line = planning_line();
  if (peak <= peak_before) return;
  planning_peak_bytes_ = std::max(planning_peak_bytes_, std::min(round_up(peak, kProcessQuantum), line));
  if (peak_before > line || peak <= line) return;
  Refusal refusal;
  refusal.line = budget_.line().limit();
  refusal.runtime = budget_.line().process_bytes();
  refusal.data = options_.data_bytes;
  refusal.need = peak;
  refusal.smallest_line = round_line(peak + kProcessQuantum);
  refusal.reason = "planning the step takes more than running it";
  throw DoesNotFit(std::move(refusal));
}

// A plan may fit although making it passed the line: planning can take more memory than running the step.
void StepPlanner::expect_room_for_planning(const plan::Problem& problem, const plan::Plan& plan) {
  if (!budget_.covers_process() || is_open_) return;
  const Bytes peak = peak_of_planning(bytes_to_plan(problem));
  planning_peak_bytes_ = std::max(planning_peak_bytes_, peak);
  if (peak <= budget_.line().limit()) return;
  plan::Shortfall shortfall;
  shortfall.need_bytes = plan.arena_bytes + std::ssize(plan.actions) * budget_.action_bytes();
  throw DoesNotFit(describe(problem, shortfall, bytes_to_plan(problem)));
}

}  // namespace plimsoll::session
