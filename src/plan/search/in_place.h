// The rule by which a task writes a value over another one that nothing reads any more.
#pragma once

#include <algorithm>

#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

// Whether the task and the buffers allow it at all. Only equal sizes share: a small value would hold a large place for
// all of its life. A value that the task reads twice may not be overwritten while the other read needs it.
inline bool may_take_place(const Problem& problem, const Sizes& sizes, const Task& task, const InPlace& pair) {
  const BufferId from = task.reads[pair.read], to = task.writes[pair.write];
  const BufferKind kind = problem.buffers[from].kind, to_kind = problem.buffers[to].kind;
  return kind != BufferKind::Variable && kind != BufferKind::Output && to_kind != BufferKind::Variable &&
         to_kind != BufferKind::Input && sizes.buffers[from] == sizes.buffers[to] &&
         std::count(task.reads.begin(), task.reads.end(), from) == 1;
}

// Calls take(from, to) for each value that is overwritten in place. `ends` says whether a value has its last use in
// this run of the task and was not overwritten yet, `begins` whether one is made by it and has no place yet; take must
// change both answers.
template <typename Ends, typename Begins, typename Take>
void hand_places_on(const Problem& problem, const Sizes& sizes, const Task& task, const Ends& ends,
                    const Begins& begins, const Take& take) {
  for (const InPlace& pair : task.may_share) {
    const BufferId from = task.reads[pair.read], to = task.writes[pair.write];
    if (ends(from) && begins(to) && may_take_place(problem, sizes, task, pair)) take(from, to);
  }
}

}  // namespace plimsoll::plan
