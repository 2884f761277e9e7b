#include "plan/search/stays.h"

#include <algorithm>

#include "plan/search/in_place.h"

namespace plimsoll::plan {
namespace {

// By buffer: the task that starts a new stay when it runs again; -1 when nothing may.
std::vector<TaskId> find_first_writers(const Problem& problem) {
  std::vector<TaskId> first(problem.buffers.size(), -1);
  for (TaskId t = static_cast<TaskId>(problem.tasks.size()) - 1; t >= 0; --t)
    for (const BufferId id : problem.tasks[t].writes)
      if (problem.buffers[id].kind == BufferKind::Temporary) first[id] = t;
  return first;
}

void find_spans(const Problem& problem, const std::vector<TaskId>& actions, Stays& found) {
  const std::vector<TaskId> first_writer = find_first_writers(problem);
  std::vector<int32_t> now(problem.buffers.size(), -1);
  const int32_t last = std::max(static_cast<int32_t>(actions.size()) - 1, 0);
  const auto open = [&](BufferId id, int32_t s) {
    now[id] = static_cast<int32_t>(found.stays.size());
    found.stays.push_back({id, s, s, -1});
  };
  for (size_t b = 0; b < problem.buffers.size(); ++b)
    if (problem.buffers[b].kind == BufferKind::Variable || problem.buffers[b].kind == BufferKind::Input)
      open(static_cast<BufferId>(b), 0);
  for (int32_t s = 0; s < static_cast<int32_t>(actions.size()); ++s) {
    const Task& task = problem.tasks[actions[s]];
    for (const auto* list : {&task.reads, &task.updates})
      for (const BufferId id : *list) found.stays[now[id]].last_action = s;
    for (const BufferId id : task.writes) {
      if (now[id] < 0 || first_writer[id] == actions[s])
        open(id, s);
      else
        found.stays[now[id]].last_action = s;
    }
  }
  for (Stay& stay : found.stays) {
    const BufferKind kind = problem.buffers[stay.buffer].kind;
    if (kind == BufferKind::Variable || kind == BufferKind::Output) stay.last_action = last;
  }
}

// Gives each stay a slot: that of a value that it overwrites in place, or one of its own.
void assign_slots(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& actions, bool in_place,
                  Stays& found) {
  std::vector<int32_t> now(problem.buffers.size(), -1);
  std::vector<bool> is_handed_on(found.stays.size(), false);
  size_t next = 0;
  const auto take_places = [&](const Task& task, int32_t s) {
    hand_places_on(
        problem, sizes, task,
        [&](BufferId from) { return found.stays[now[from]].last_action == s && !is_handed_on[now[from]]; },
        [&](BufferId to) { return found.stays[now[to]].first_action == s && found.stays[now[to]].slot < 0; },
        [&](BufferId from, BufferId to) {
          Stay& after = found.stays[now[to]];
          is_handed_on[now[from]] = true;
          after.slot = found.stays[now[from]].slot;
          found.slots[after.slot].last_action = after.last_action;
        });
  };
  for (int32_t s = 0; s == 0 || s < static_cast<int32_t>(actions.size()); ++s) {
    const size_t begin = next;
    for (; next < found.stays.size() && found.stays[next].first_action == s; ++next) {
      const Stay& stay = found.stays[next];
      now[stay.buffer] = static_cast<int32_t>(next);
    }
    const auto open = [&](BufferKind kind) {
      for (size_t i = begin; i < next; ++i) {
        Stay& stay = found.stays[i];
        const BufferKind mine = problem.buffers[stay.buffer].kind;
        if (stay.slot >= 0 || mine == BufferKind::Variable || (kind == BufferKind::Input && mine != kind)) continue;
        stay.slot = static_cast<int32_t>(found.slots.size());
        found.slots.push_back({stay.first_action, stay.last_action, sizes.buffers[stay.buffer]});
      }
    };
    if (s == 0) open(BufferKind::Input);
    if (in_place && !actions.empty()) take_places(problem.tasks[actions[s]], s);
    open(BufferKind::Temporary);
  }
}

}  // namespace

Stays find_stays(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& actions, bool in_place) {
  Stays found;
  find_spans(problem, actions, found);
  assign_slots(problem, sizes, actions, in_place, found);
  const Peak peak = find_peak(sizes, found.slots, actions);
  found.peak_bytes = peak.bytes;
  found.peak_action = peak.action;
  return found;
}

std::vector<PackItem> make_items(const Sizes& sizes, const Stays& stays, const std::vector<TaskId>& actions) {
  std::vector<PackItem> items;
  items.reserve(stays.slots.size() + actions.size());
  for (const Slot& slot : stays.slots) items.push_back({slot.first_action, slot.last_action + 1, slot.bytes});
  for (size_t s = 0; s < actions.size(); ++s)
    if (const Bytes bytes = sizes.workspace[actions[s]]; bytes > 0)
      items.push_back({static_cast<int64_t>(s), static_cast<int64_t>(s) + 1, bytes});
  return items;
}

}  // namespace plimsoll::plan
