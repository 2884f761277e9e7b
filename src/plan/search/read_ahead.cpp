#include "plan/search/read_ahead.h"

#include <algorithm>
#include <numeric>

#include "plan/search/live_tree.h"
#include "plan/search/stays.h"

namespace plimsoll::plan {
namespace {

bool is_load(const Staged& staged, TaskId task) { return staged.meaning[task].kind == Action::Kind::Load; }
bool is_transfer(const Staged& staged, TaskId task) { return staged.meaning[task].kind != Action::Kind::Run; }

// By step: when the tasks before it are done, if none ever waits.
std::vector<double> find_clock(const Staged& staged, const std::vector<TaskId>& steps) {
  std::vector<double> clock(steps.size() + 1, 0);
  for (size_t s = 0; s < steps.size(); ++s)
    clock[s + 1] = clock[s] + (is_transfer(staged, steps[s]) ? 0 : staged.problem.tasks[steps[s]].fixed_ns);
  return clock;
}

// By step: when its load has to start so that it is done in time. With one row for all, so that those behind it are
// too: where the disk has more to do than the tasks, that is earlier and earlier towards the front.
std::vector<double> find_latest_starts(const Staged& staged, const std::vector<TaskId>& steps,
                                       const std::vector<double>& clock, Ahead how) {
  std::vector<double> latest(steps.size(), 0);
  double next = clock.back();
  for (size_t s = steps.size(); s-- > 0;) {
    if (!is_transfer(staged, steps[s])) continue;
    const double ns = staged.problem.tasks[steps[s]].fixed_ns;
    if (is_load(staged, steps[s])) next = std::min(next, clock[s]);
    next -= ns;
    latest[s] = how == Ahead::InOneRow ? next : clock[s] - ns;
  }
  return latest;
}

// Up to where loads may fill memory. What is filled to the brim everywhere cannot be packed.
Bytes find_room(const Staged& staged, Bytes peak_bytes, Ahead how) {
  if (how == Ahead::EachAlone) return peak_bytes;
  constexpr double kShare = 0.85;
  const Bytes variables = staged.sizes.variables;
  return variables + static_cast<Bytes>(kShare * static_cast<double>(std::max<Bytes>(peak_bytes - variables, 0)));
}

}  // namespace

double predict_ns(const Staged& staged, const std::vector<TaskId>& steps, Disk which) {
  double now = 0, disk = 0;
  std::vector<double> ready(staged.problem.buffers.size(), 0);
  for (const TaskId t : steps) {
    const Task& task = staged.problem.tasks[t];
    if (is_transfer(staged, t)) {
      disk = std::max(disk, now) + (which == Disk::AtHand ? staged.transfer_ns(t) : task.fixed_ns);
      for (const BufferId id : task.writes) ready[id] = disk;
      continue;
    }
    for (const auto* list : {&task.reads, &task.updates})
      for (const BufferId id : *list) now = std::max(now, ready[id]);
    now += task.fixed_ns;
  }
  return std::max(now, disk);
}

std::vector<TaskId> read_ahead(const Staged& staged, const std::vector<TaskId>& steps, bool in_place, Bytes peak_bytes,
                               Ahead how) {
  const auto count = static_cast<int32_t>(steps.size());
  const Stays stays = find_stays(staged.problem, staged.sizes, steps, in_place);
  LiveTree alive(std::max(count, 1));
  alive.add(0, count - 1, staged.sizes.variables);
  for (const Slot& slot : stays.slots) alive.add(slot.first_step, slot.last_step, slot.bytes);
  for (int32_t s = 0; s < count; ++s) alive.add(s, s, staged.sizes.scratch[steps[s]]);

  const std::vector<double> clock = find_clock(staged, steps);
  const std::vector<double> latest = find_latest_starts(staged, steps, clock, how);
  const Bytes room = find_room(staged, peak_bytes, how);
  int32_t row = 0;  // the first place behind the load before this one, where they keep their order
  std::vector<int32_t> touched(staged.problem.buffers.size(), -1);  // by buffer of the plan: the last step that used it
  std::vector<int32_t> place(steps.size());
  std::iota(place.begin(), place.end(), 0);
  for (int32_t s = 0; s < count; ++s) {
    const Task& task = staged.problem.tasks[steps[s]];
    if (is_load(staged, steps[s])) {
      const BufferId id = task.writes[0];
      const Bytes bytes = staged.sizes.buffers[id];
      const int32_t earliest = std::max(row, touched[staged.buffer_of[id]] + 1);
      int32_t at = s;
      while (at > earliest && clock[at] > latest[s] && !staged.is_mark(steps[at - 1]) &&
             alive.highest(at - 1, at - 1) + bytes <= room)
        --at;
      if (how == Ahead::InOneRow) row = at < s ? at : s + 1;
      alive.add(at, s - 1, bytes);
      place[s] = at;
    }
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list) touched[staged.buffer_of[id]] = s;
  }
  std::vector<int32_t> by_place(steps.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  // At one place, what moved there goes before what was there.
  std::stable_sort(by_place.begin(), by_place.end(), [&](int32_t a, int32_t b) {
    return std::pair(place[a], place[a] == a) < std::pair(place[b], place[b] == b);
  });
  std::vector<TaskId> moved;
  moved.reserve(steps.size());
  for (const int32_t s : by_place) moved.push_back(steps[s]);
  return moved;
}

}  // namespace plimsoll::plan
