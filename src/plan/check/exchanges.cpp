#include "plan/check/exchanges.h"

#include <fmt/format.h>

namespace plimsoll::plan {

std::string list_exchanges(const Problem& problem, const Plan& plan) {
  std::string text;
  for (const Action& action : plan.actions) {
    if (action.task >= static_cast<TaskId>(problem.tasks.size())) continue;
    const Task& task = problem.tasks[action.task];
    if (task.lane != Lane::Network) continue;
    Bytes bytes = 0;
    for (const BufferId id : task.updates) bytes += problem.buffers[id].fixed_bytes;
    text += fmt::format("{} {}\n", task.name, bytes);
  }
  return text;
}

}  // namespace plimsoll::plan
