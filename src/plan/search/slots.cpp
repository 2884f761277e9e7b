#include "plan/search/slots.h"

#include <algorithm>

#include "plan/search/in_place.h"

namespace plimsoll::plan {
namespace {

// Fills vectors of the timeline, which keep their memory from one order to the next.
void find_spans(const Problem& problem, const std::vector<TaskId>& order, Timeline& timeline) {
  const size_t buffers = problem.buffers.size();
  timeline.first_action.assign(buffers, -1);
  timeline.last_action.assign(buffers, -1);
  const auto actions = static_cast<int32_t>(order.size());
  for (int32_t s = 0; s < actions; ++s) {
    const Task& task = problem.tasks[order[s]];
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list) {
        if (timeline.first_action[id] < 0) timeline.first_action[id] = s;
        timeline.last_action[id] = s;
      }
  }
  for (size_t b = 0; b < buffers; ++b) {
    const BufferKind kind = problem.buffers[b].kind;
    if (kind == BufferKind::Variable || kind == BufferKind::Input) timeline.first_action[b] = 0;
    if (kind == BufferKind::Input) timeline.last_action[b] = std::max(timeline.last_action[b], 0);
    if (kind == BufferKind::Variable || kind == BufferKind::Output) timeline.last_action[b] = std::max(actions - 1, 0);
  }
}

// Gives each buffer a slot: that of a value that it overwrites in place, or one of its own.
void assign_slots(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place,
                  Timeline& timeline) {
  timeline.slot_of.assign(problem.buffers.size(), -1);
  timeline.slots.clear();
  std::vector<bool> is_handed_on(problem.buffers.size(), false);
  const auto open = [&](BufferId id) {
    timeline.slot_of[id] = static_cast<int32_t>(timeline.slots.size());
    timeline.slots.push_back({timeline.first_action[id], timeline.last_action[id], sizes.buffers[id]});
  };
  for (size_t b = 0; b < problem.buffers.size(); ++b)
    if (problem.buffers[b].kind == BufferKind::Input) open(static_cast<BufferId>(b));
  for (int32_t s = 0; s < static_cast<int32_t>(order.size()); ++s) {
    const Task& task = problem.tasks[order[s]];
    if (in_place)
      hand_places_on(
          problem, sizes, task, [&](BufferId from) { return timeline.last_action[from] == s && !is_handed_on[from]; },
          [&](BufferId to) { return timeline.first_action[to] == s && timeline.slot_of[to] < 0; },
          [&](BufferId from, BufferId to) {
            is_handed_on[from] = true;
            timeline.slot_of[to] = timeline.slot_of[from];
            timeline.slots[timeline.slot_of[to]].last_action = timeline.last_action[to];
          });
    for (const BufferId id : task.writes)
      if (timeline.slot_of[id] < 0 && problem.buffers[id].kind != BufferKind::Variable) open(id);
  }
}

}  // namespace

Sizes measure(const Problem& problem, int64_t batch, int64_t micro_batches) {
  Sizes sizes;
  sizes.buffers.reserve(problem.buffers.size());
  for (const Buffer& buffer : problem.buffers) {
    sizes.buffers.push_back(placed_bytes(buffer, holds_whole_batch(buffer) ? batch : micro_batches));
    if (buffer.kind == BufferKind::Variable) sizes.variables += sizes.buffers.back();
  }
  sizes.workspace.reserve(problem.tasks.size());
  for (const Task& task : problem.tasks) sizes.workspace.push_back(workspace_bytes(task, micro_batches));
  return sizes;
}

Peak find_peak(const Sizes& sizes, const std::vector<Slot>& slots, const std::vector<TaskId>& actions) {
  std::vector<Bytes> change(std::max<size_t>(actions.size(), 1) + 1, 0);
  for (const Slot& slot : slots) {
    change[slot.first_action] += slot.bytes;
    change[slot.last_action + 1] -= slot.bytes;
  }
  Bytes alive = sizes.variables;
  Peak peak{.bytes = alive + (actions.empty() ? change[0] : 0)};
  for (size_t s = 0; s < actions.size(); ++s) {
    alive += change[s];
    const Bytes with_workspace = alive + sizes.workspace[actions[s]];
    peak.area += static_cast<double>(alive);
    if (peak.action >= 0 && with_workspace <= peak.bytes) continue;
    peak.bytes = with_workspace;
    peak.action = static_cast<int32_t>(s);
  }
  return peak;
}

Timeline make_timeline(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place) {
  Timeline timeline;
  find_timeline(problem, sizes, order, in_place, timeline);
  return timeline;
}

void find_timeline(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place,
                   Timeline& timeline) {
  find_spans(problem, order, timeline);
  assign_slots(problem, sizes, order, in_place, timeline);
  const Peak peak = find_peak(sizes, timeline.slots, order);
  timeline.peak_bytes = peak.bytes;
  timeline.peak_action = peak.action;
  timeline.area = peak.area;
}

}  // namespace plimsoll::plan
