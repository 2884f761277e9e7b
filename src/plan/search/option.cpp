#include "plan/search/option.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/search/read_ahead.h"
#include "plan/search/recompute.h"

namespace plimsoll::plan {
namespace {

// Drops candidates that are neither faster nor lower than another. They are compared with the speed of an ordinary
// disk, so that the list, and with it the smallest line, does not depend on a measurement. The fastest come first.
void keep_useful(std::vector<Candidate>& candidates, Bytes below) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.ordinary_ns, a.peak_bytes) < std::pair(b.ordinary_ns, b.peak_bytes);
  });
  std::vector<Candidate> useful;
  for (Candidate& candidate : candidates) {
    if (candidate.peak_bytes >= below) continue;
    below = candidate.peak_bytes;
    useful.push_back(std::move(candidate));
  }
  std::stable_sort(useful.begin(), useful.end(), [](const Candidate& a, const Candidate& b) { return a.ns < b.ns; });
  candidates = std::move(useful);
}

// A value and its loaded copy are one buffer of the plan, which has one place at a time. Actions in which a task runs
// again on the first while the copy is alive are not a valid plan.
bool are_at_two_places(const Staged& staged, const Stays& stays) {
  std::vector<int32_t> until(staged.buffer_of.size(), -1);
  for (const Stay& stay : stays.stays) {
    if (stay.slot < 0) continue;
    int32_t& last = until[staged.buffer_of[stay.buffer]];
    if (last >= stay.first_action) return true;
    last = std::max(last, stay.last_action);
  }
  return false;
}

// By task: the time of one more run. Tasks on other lanes count as 0, because they run beside the computation.
std::vector<double> find_ns(const Staged& staged) {
  std::vector<double> ns(staged.problem.tasks.size(), 0);
  for (size_t t = 0; t < ns.size(); ++t)
    if (staged.problem.tasks[t].lane == Lane::Compute) ns[t] = staged.problem.tasks[t].fixed_ns;
  return ns;
}

}  // namespace

Option::Option(const Problem& problem, const Limits& limits, const Split& split, const std::vector<TaskId>& order,
               const Stored& stored, double least_ns)
    : limits_(limits),
      staged_(stage(problem, limits, split, order, stored)),
      relief_(staged_.problem, staged_.sizes, find_ns(staged_), limits.levers.in_place) {
  double disk_ns = 0;
  for (size_t t = 0; t < staged_.problem.tasks.size(); ++t)
    if (staged_.problem.tasks[t].lane == Lane::Disk) disk_ns += staged_.transfer_ns(static_cast<TaskId>(t));
  has_transfers_ = staged_.disk_bytes > 0;
  least_ns_ = std::max({staged_.ns, disk_ns, least_ns});
  bound_ = find_lower_bound(staged_.problem, staged_.sizes, limits.levers.in_place,
                            is_one_of_many() ? Return::ByLoading : Return::ByRunning);
  std::vector<TaskId> actions(staged_.problem.tasks.size());
  std::iota(actions.begin(), actions.end(), 0);
  const Bytes peak = make_timeline(staged_.problem, staged_.sizes, actions, limits.levers.in_place).peak_bytes;
  add(plain_, actions, peak);
  keep_useful(plain_, std::numeric_limits<Bytes>::max());
  least_ns_ = plain_.front().ns;
}

void Option::add(std::vector<Candidate>& candidates, const std::vector<TaskId>& actions, Bytes peak_bytes) const {
  if (has_transfers_ &&
      are_at_two_places(staged_, find_stays(staged_.problem, staged_.sizes, actions, limits_.levers.in_place)))
    return;
  for (const Ahead how : {Ahead::InOneRow, Ahead::EachAlone}) {
    if (!has_transfers_) break;
    std::vector<TaskId> ahead = read_ahead(staged_, actions, limits_.levers.in_place, peak_bytes, how);
    const Stays stays = find_stays(staged_.problem, staged_.sizes, ahead, limits_.levers.in_place);
    if (ahead != actions && !are_at_two_places(staged_, stays))
      candidates.push_back(make_candidate(std::move(ahead), stays.peak_bytes));
  }
  candidates.push_back(make_candidate(actions, peak_bytes));
}

Candidate Option::make_candidate(std::vector<TaskId> actions, Bytes peak_bytes) const {
  const double ns = std::max(predict_ns(staged_, actions, Disk::AtHand), least_ns_);
  const double ordinary_ns = has_transfers_ ? predict_ns(staged_, actions, Disk::Ordinary) : ns;
  return {std::move(actions), ns, ordinary_ns, peak_bytes};
}

std::vector<Candidate>& Option::recomputing() {
  if (std::exchange(is_searched_, true) || !limits_.levers.recompute) return recomputing_;
  std::vector<TaskId> actions(staged_.problem.tasks.size());
  std::iota(actions.begin(), actions.end(), 0);
  const std::vector<Schedule> schedules =
      propose_schedules(staged_.problem, staged_.sizes, actions, limits_.levers.in_place, limits_.batch, bound_.bytes,
                        is_one_of_many() ? Effort::Quick : Effort::Thorough);
  for (const Schedule& schedule : schedules) add(recomputing_, schedule.actions, schedule.peak_bytes);
  Bytes lowest = plain_.front().peak_bytes;
  for (const Candidate& candidate : plain_) lowest = std::min(lowest, candidate.peak_bytes);
  keep_useful(recomputing_, lowest);
  return recomputing_;
}

void Option::pack_for(Candidate& candidate, Bytes line) const {
  constexpr int64_t kShortSearch = 10;
  // There are many options with micro-batches and transfers: each gets less search.
  const int64_t nodes = limits_.pack_nodes / (is_one_of_many() ? 10 : 1);
  if (candidate.items.empty()) {
    candidate.stays = find_stays(staged_.problem, staged_.sizes, candidate.actions, limits_.levers.in_place);
    candidate.items = make_items(staged_.sizes, candidate.stays, candidate.actions);
    candidate.packing = pack(candidate.items, kAlignment, 0, {.nodes = nodes / kShortSearch});
  }
  const Packing& packing = candidate.packing;
  if (arena_bytes(candidate) <= line || packing.height == packing.lower_bound) return;
  const Bytes room = std::max<Bytes>(line - staged_.sizes.variables, 0);
  Packing longer = pack(candidate.items, kAlignment, room, {.nodes = nodes});
  if (longer.height < packing.height) candidate.packing = std::move(longer);
}

void Option::tighten(Candidate& candidate) const {
  constexpr Bytes kLosses = 200;  // 1/200 of the arena may be lost to gaps
  if (arena_bytes(candidate) - staged_.sizes.variables - candidate.packing.lower_bound >
      arena_bytes(candidate) / kLosses)
    pack_for(candidate, 0);
}

bool Option::fits(Candidate& candidate, Bytes line) const {
  const Bytes room = line - plan_bytes(candidate);
  if (candidate.peak_bytes > room) return false;
  pack_for(candidate, room);
  return arena_bytes(candidate) <= room;
}

}  // namespace plimsoll::plan
