#include "plan/plan.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <string_view>

#include <fmt/format.h>

namespace plimsoll::plan {

std::string_view name_of(Exactness exactness) {
  constexpr std::array<std::string_view, 2> kNames{"bit-identical", "within-tolerance"};
  return kNames[static_cast<size_t>(exactness)];
}

std::string describe(const Problem& problem, const Shortfall& shortfall) {
  std::string text = fmt::format("does not fit: needs {} of {}, {} too much", format_bytes(shortfall.need_bytes),
                                 format_bytes(shortfall.limit_bytes), format_bytes(shortfall.deficit_bytes));
  if (shortfall.tightest_task >= 0)
    text += fmt::format("; tightest at {}", problem.tasks[shortfall.tightest_task].name);
  for (size_t i = 0; i < shortfall.holders.size() && i < 3; ++i)
    text += fmt::format("{} {} ({}, {})", i == 0 ? ", which holds" : ",", shortfall.holders[i].name,
                        name_of(shortfall.holders[i].tag), format_bytes(shortfall.holders[i].bytes));
  if (shortfall.lower_bound_task >= 0)
    text += fmt::format("; no plan is below {}, which it takes to run {}", format_bytes(shortfall.lower_bound_bytes),
                        problem.tasks[shortfall.lower_bound_task].name);
  return text;
}

namespace {

Task make_transfer(const Problem& problem, const char* what, BufferId id, double ns) {
  Task task;
  task.name = what + problem.buffers[id].name;
  task.lane = Lane::Disk;
  task.fixed_ns = ns;
  return task;
}

}  // namespace

Task make_save(const Problem& problem, BufferId id, double ns) {
  Task task = make_transfer(problem, "save ", id, ns);
  task.reads = {id};
  return task;
}

Task make_load(const Problem& problem, BufferId id, double ns) {
  Task task = make_transfer(problem, "load ", id, ns);
  task.writes = {id};
  task.recomputable = true;
  return task;
}

double busy_ns(const Problem& problem, const Plan& plan, Lane lane) {
  double ns = 0;
  for (const Action& action : plan.actions)
    if (task_of(problem, plan, action).lane == lane)
      ns += cost_ns(work_of(problem, plan, action), plan.micro_batches[action.micro_batch]);
  return ns;
}

Tally count_work(const Problem& problem, const Plan& plan) {
  Tally tally;
  const int64_t samples = plan.micro_batches.empty() ? 1 : plan.micro_batches.front();
  std::set<std::pair<TaskId, int32_t>> seen;
  std::set<BufferId> moved;
  for (const Action& action : plan.actions) {
    const Task& task = task_of(problem, plan, action);
    if (is_transfer(problem, action)) {
      ++(is_load(task) ? tally.loads : tally.saves);
      if (!std::binary_search(plan.stored.begin(), plan.stored.end(), moved_by(task))) moved.insert(moved_by(task));
      continue;
    }
    const int64_t of_micro_batch = plan.micro_batches.empty() ? 1 : plan.micro_batches[action.micro_batch];
    const double ns = cost_ns(work_of(problem, plan, action), of_micro_batch);
    if (!seen.emplace(action.task, action.micro_batch).second) {
      ++tally.reruns;
      tally.rerun_ns += ns;
    } else if (action.variant >= 0) {
      tally.variants += action.micro_batch == 0 ? 1 : 0;
      tally.variant_ns += ns - cost_ns(task, of_micro_batch);
    }
  }
  for (const BufferId id : plan.stored) tally.streamed_bytes += placed_bytes(problem.buffers[id], samples);
  for (const BufferId id : moved) tally.spilled_bytes += placed_bytes(problem.buffers[id], samples);
  return tally;
}

std::vector<ActionPlaces> find_places(const Problem& problem, const Plan& plan) {
  std::vector<ActionPlaces> places(plan.actions.size());
  std::vector<Bytes> now(problem.buffers.size(), -1);
  size_t next = 0;
  for (size_t s = 0; s < plan.actions.size(); ++s) {
    const Action& action = plan.actions[s];
    ActionPlaces& place = places[s];
    for (; next < plan.lives.size() && plan.lives[next].first_action <= static_cast<int32_t>(s); ++next) {
      const Life& life = plan.lives[next];
      (life.buffer == kWorkspace ? place.workspace : now[life.buffer]) = life.offset;
    }
    const Work& work = work_of(problem, plan, action);
    for (const BufferId id : work.reads) place.reads.push_back(now[id]);
    for (const BufferId id : work.writes) place.writes.push_back(now[id]);
    for (const BufferId id : work.updates) place.updates.push_back(now[id]);
  }
  return places;
}

}  // namespace plimsoll::plan
