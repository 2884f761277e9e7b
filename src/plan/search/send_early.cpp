#include "plan/search/send_early.h"

#include <algorithm>
#include <queue>

#include "plan/search/order.h"

namespace plimsoll::plan {
namespace {

bool is_on_variables(const Problem& problem, const Task& task) {
  for (const auto* list : {&task.reads, &task.writes, &task.updates})
    for (const BufferId id : *list)
      if (problem.buffers[id].kind != BufferKind::Variable) return false;
  return task.workspace_fixed_bytes == 0 && task.workspace_per_sample_bytes == 0;
}

// Exchanges on variables, and the tasks on variables alone that they wait for.
std::vector<bool> find_hurried(const Problem& problem, const Precedence& precedence) {
  std::vector<bool> is_hurried(problem.tasks.size(), false);
  for (auto t = static_cast<TaskId>(problem.tasks.size()) - 1; t >= 0; --t) {
    const Task& task = problem.tasks[t];
    if (!is_on_variables(problem, task)) continue;
    is_hurried[t] = task.lane == Lane::Network;
    for (int32_t s = precedence.first_successor[t]; s < precedence.first_successor[t + 1] && !is_hurried[t]; ++s)
      is_hurried[t] = is_hurried[precedence.successors[s]];
  }
  return is_hurried;
}

}  // namespace

void send_early(const Problem& problem, std::vector<TaskId>& order) {
  if (std::ranges::none_of(problem.tasks, [](const Task& task) { return task.lane == Lane::Network; })) return;
  const Precedence precedence = find_precedence(problem);
  const std::vector<bool> is_hurried = find_hurried(problem, precedence);
  std::vector<int32_t> missing(problem.tasks.size());
  std::priority_queue<TaskId, std::vector<TaskId>, std::greater<>> ready;
  for (size_t t = 0; t < missing.size(); ++t) {
    missing[t] = precedence.first_predecessor[t + 1] - precedence.first_predecessor[t];
    if (is_hurried[t] && missing[t] == 0) ready.push(static_cast<TaskId>(t));
  }
  std::vector<TaskId> early;
  const auto add = [&](TaskId task) {
    early.push_back(task);
    for (int32_t s = precedence.first_successor[task]; s < precedence.first_successor[task + 1]; ++s) {
      const TaskId next = precedence.successors[s];
      if (--missing[next] == 0 && is_hurried[next]) ready.push(next);
    }
  };
  const auto add_ready = [&] {
    while (!ready.empty()) {
      const TaskId task = ready.top();
      ready.pop();
      add(task);
    }
  };
  add_ready();
  for (const TaskId task : order) {
    if (is_hurried[task]) continue;
    add(task);
    add_ready();
  }
  order = std::move(early);
}

}  // namespace plimsoll::plan
