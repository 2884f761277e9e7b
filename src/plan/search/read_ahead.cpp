#include "plan/search/read_ahead.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "plan/search/live_tree.h"
#include "plan/search/stays.h"

namespace plimsoll::plan {
namespace {

bool is_transfer(const Staged& staged, TaskId task) { return staged.problem.tasks[task].lane == Lane::Disk; }
bool loads(const Staged& staged, TaskId task) {
  return is_transfer(staged, task) && is_load(staged.problem.tasks[task]);
}
bool computes(const Staged& staged, TaskId task) { return staged.problem.tasks[task].lane == Lane::Compute; }

// By action: when the tasks before it on the compute lane are done, if none ever waits.
std::vector<double> find_clock(const Staged& staged, const std::vector<TaskId>& actions) {
  std::vector<double> clock(actions.size() + 1, 0);
  for (size_t s = 0; s < actions.size(); ++s)
    clock[s + 1] = clock[s] + (computes(staged, actions[s]) ? staged.problem.tasks[actions[s]].fixed_ns : 0);
  return clock;
}

// By action: when its load has to start to be done in time. With InOneRow, so that all later transfers are in time too:
// where the disk has more to do than the computation, loads at the front start ever earlier.
std::vector<double> find_latest_starts(const Staged& staged, const std::vector<TaskId>& actions,
                                       const std::vector<double>& clock, Ahead how) {
  std::vector<double> latest(actions.size(), 0);
  double next = clock.back();
  for (size_t s = actions.size(); s-- > 0;) {
    if (!is_transfer(staged, actions[s])) continue;
    const double ns = staged.problem.tasks[actions[s]].fixed_ns;
    if (loads(staged, actions[s])) next = std::min(next, clock[s]);
    next -= ns;
    latest[s] = how == Ahead::InOneRow ? next : clock[s] - ns;
  }
  return latest;
}

// The bytes up to which early loads may fill memory. Some room is left: memory that is full all the time can't be
// packed.
Bytes find_room(const Staged& staged, Bytes peak_bytes, Ahead how) {
  if (how == Ahead::EachAlone) return peak_bytes;
  constexpr double kShare = 0.85;
  const Bytes variables = staged.sizes.variables;
  return variables + static_cast<Bytes>(kShare * static_cast<double>(std::max<Bytes>(peak_bytes - variables, 0)));
}

}  // namespace

double predict_ns(const Staged& staged, const std::vector<TaskId>& actions, Disk which) {
  std::array<double, kLaneCount> lanes{};
  double& now = lanes[static_cast<size_t>(Lane::Compute)];
  std::vector<double> ready(staged.problem.buffers.size(), 0);  // by buffer: when another lane is done with it
  for (const TaskId t : actions) {
    const Task& task = staged.problem.tasks[t];
    double& lane = lanes[static_cast<size_t>(task.lane)];
    lane = std::max(lane, now);
    for (const auto* list : {&task.reads, &task.updates})
      for (const BufferId id : *list) lane = std::max(lane, ready[id]);
    lane += is_transfer(staged, t) && which == Disk::AtHand ? staged.transfer_ns(t) : task.fixed_ns;
    if (task.lane == Lane::Compute) continue;
    for (const auto* list : {&task.writes, &task.updates})
      for (const BufferId id : *list) ready[id] = lane;
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

std::vector<TaskId> read_ahead(const Staged& staged, const std::vector<TaskId>& actions, bool in_place,
                               Bytes peak_bytes, Ahead how) {
  const auto count = static_cast<int32_t>(actions.size());
  const Stays stays = find_stays(staged.problem, staged.sizes, actions, in_place);
  LiveTree alive(std::max(count, 1));
  alive.add(0, count - 1, staged.sizes.variables);
  for (const Slot& slot : stays.slots) alive.add(slot.first_action, slot.last_action, slot.bytes);
  for (int32_t s = 0; s < count; ++s) alive.add(s, s, staged.sizes.workspace[actions[s]]);

  const std::vector<double> clock = find_clock(staged, actions);
  const std::vector<double> latest = find_latest_starts(staged, actions, clock, how);
  const Bytes room = find_room(staged, peak_bytes, how);
  int32_t row = 0;  // with InOneRow: the first place behind the load before this one
  std::vector<int32_t> touched(staged.problem.buffers.size(),
                               -1);  // by buffer of the plan: the last action that used it
  std::vector<int32_t> place(actions.size());
  std::iota(place.begin(), place.end(), 0);
  for (int32_t s = 0; s < count; ++s) {
    const Task& task = staged.problem.tasks[actions[s]];
    if (loads(staged, actions[s])) {
      const BufferId id = task.writes[0];
      const Bytes bytes = staged.sizes.buffers[id];
      const int32_t earliest = std::max(row, touched[staged.buffer_of[id]] + 1);
      int32_t at = s;
      while (at > earliest && clock[at] > latest[s] && !staged.is_mark(actions[at - 1]) &&
             alive.highest(at - 1, at - 1) + bytes <= room)
        --at;
      if (how == Ahead::InOneRow) row = at < s ? at : s + 1;
      alive.add(at, s - 1, bytes);
      place[s] = at;
    }
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list) touched[staged.buffer_of[id]] = s;
  }
  std::vector<int32_t> by_place(actions.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  // Ties: a moved action precedes the one originally there.
  std::stable_sort(by_place.begin(), by_place.end(), [&](int32_t a, int32_t b) {
    return std::pair(place[a], place[a] == a) < std::pair(place[b], place[b] == b);
  });
  std::vector<TaskId> moved;
  moved.reserve(actions.size());
  for (const int32_t s : by_place) moved.push_back(actions[s]);
  return moved;
}

}  // namespace plimsoll::plan
