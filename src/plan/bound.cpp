#include "plan/bound.h"

#include <algorithm>
#include <utility>

namespace plimsoll {
namespace {

// Optimistic: every write takes the largest place that it ever may.
Bytes most_shared(const Problem& problem, const Sizes& sizes, const Task& task) {
  Bytes bytes = 0;
  for (int32_t w = 0; w < static_cast<int32_t>(task.writes.size()); ++w) {
    Bytes most = 0;
    for (const InPlace& pair : task.may_share) {
      const BufferId from = task.reads[pair.read];
      const BufferKind kind = problem.buffers[from].kind;
      if (pair.write == w && kind != BufferKind::Variable && kind != BufferKind::Output)
        most = std::max(most, std::min(sizes.buffers[from], sizes.buffers[task.writes[w]]));
    }
    bytes += most;
  }
  return bytes;
}

}  // namespace

Bound find_lower_bound(const Problem& problem, const Sizes& sizes, bool in_place) {
  Bound bound{sizes.variables, -1};
  std::vector<TaskId> counted(problem.buffers.size(), -1);
  for (TaskId t = 0; t < static_cast<TaskId>(problem.tasks.size()); ++t) {
    const Task& task = problem.tasks[t];
    Bytes bytes = sizes.variables + sizes.scratch[t];
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list)
        if (problem.buffers[id].kind != BufferKind::Variable && std::exchange(counted[id], t) != t)
          bytes += sizes.buffers[id];
    if (in_place) bytes -= most_shared(problem, sizes, task);
    if (bytes > bound.bytes) bound = {bytes, t};
  }
  Bytes inputs = sizes.variables, outputs = sizes.variables;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].kind == BufferKind::Input) inputs += sizes.buffers[b];
    if (problem.buffers[b].kind == BufferKind::Output) outputs += sizes.buffers[b];
  }
  if (std::max(inputs, outputs) > bound.bytes) bound = {std::max(inputs, outputs), -1};
  return bound;
}

}  // namespace plimsoll
