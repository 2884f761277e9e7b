// The problem as the search sees it: tasks in the order they run, one micro-batch for all, and among them those
// that move buffers to the scratch file and back, on the disk lane.
#pragma once

#include <vector>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problem.h"
#include "plan/search/slots.h"
#include "plan/search/split.h"

namespace plimsoll::plan {

// What lives in the scratch file, by buffer.
struct Stored {
  std::vector<bool> variables;  // between steps, and in memory only around their uses
  std::vector<bool> values;     // saved after one use and loaded before the next, over the longest gap between them
  Bytes bytes = 0;              // of the file
};

// With micro-batches, the tasks between `begin` and `end` run once for each. These two are marks: at `begin` all sums
// and collected rows come alive, at `end` they are still alive, and so is what the next micro-batch needs.
//
//   before   begin   inside   end   after          becomes          before   inside 0   inside 1   ...   after
struct Staged {
  Problem problem;
  Sizes sizes;
  std::vector<Action> meaning;         // by task: its action in the plan; marks have none
  std::vector<Task> transfers;         // Plan::transfers, which meanings with larger task numbers refer to
  std::vector<bool> has_rows;          // by task: its action names the micro-batch
  std::vector<BufferId> buffer_of;     // by buffer: that of the plan; a loaded copy is a buffer of its own here
  std::vector<int64_t> micro_batches;  // samples of each
  TaskId begin = -1, end = -1;
  // Tasks have the time of an ordinary disk, so that what fits does not depend on a measurement; times these factors,
  // it is that of the measured disk.
  double load_factor = 1, save_factor = 1;
  double ns = 0;  // to compute all of it once, transfers not counted
  Bytes disk_bytes = 0;
  double transfer_ns(TaskId task) const {
    return problem.tasks[task].fixed_ns * (is_load(problem.tasks[task]) ? load_factor : save_factor);
  }
  bool is_mark(TaskId task) const { return task == begin || task == end; }
};
Staged stage(const Problem& problem, const Limits& limits, const Split& split, const std::vector<TaskId>& order,
             const Stored& stored);

}  // namespace plimsoll::plan
