#include "plan/search/split.h"

#include <algorithm>

namespace plimsoll::plan {
namespace {

using When = Split::When;

class Finder {
 public:
  explicit Finder(const Problem& problem) : problem_(problem) {
    split_.when.assign(problem.tasks.size(), When::Before);
    split_.has_rows.assign(problem.tasks.size(), false);
    split_.is_sum.assign(problem.buffers.size(), false);
    split_.is_collected.assign(problem.buffers.size(), false);
    rows_.assign(problem.buffers.size(), false);
    is_late_.assign(problem.buffers.size(), false);
    is_touched_.assign(problem.buffers.size(), false);
    for (size_t b = 0; b < problem.buffers.size(); ++b)
      rows_[b] = problem.buffers[b].kind == BufferKind::Input && problem.buffers[b].per_sample_bytes > 0;
  }

  Split run() {
    for (TaskId t = 0; t < static_cast<TaskId>(problem_.tasks.size()) && split_.is_possible(); ++t) place(t);
    if (split_.is_possible()) move_inside();
    return std::move(split_);
  }

 private:
  bool any(const std::vector<BufferId>& ids, const std::vector<bool>& flags) const {
    return std::any_of(ids.begin(), ids.end(), [&](BufferId id) { return flags[id]; });
  }
  bool grows(const std::vector<BufferId>& ids) const {
    return std::any_of(ids.begin(), ids.end(), [&](BufferId id) { return problem_.buffers[id].per_sample_bytes > 0; });
  }

  void place(TaskId t) {
    const Task& task = problem_.tasks[t];
    const bool reads_rows = any(task.reads, rows_) || any(task.updates, rows_);
    const bool has_rows = reads_rows || grows(task.writes) || task.workspace_per_sample_bytes > 0;
    const bool reads_late = any(task.reads, is_late_) || any(task.updates, is_late_);
    if (!has_rows) return finish(t, reads_late || changes_touched(task) ? When::After : When::Before);
    if (task.batch_rule == BatchRule::Mixes) {
      // It can run once after all micro-batches, unless its results grow with the batch.
      if (grows(task.writes) || grows(task.updates) || task.workspace_per_sample_bytes > 0) return forbid(t);
      for (const BufferId id : task.reads)
        if (rows_[id] && problem_.buffers[id].kind == BufferKind::Temporary) split_.is_collected[id] = true;
      return finish(t, When::After);
    }
    if (reads_late) return forbid(t);
    for (const auto* list : {&task.writes, &task.updates})
      for (const BufferId id : *list) {
        rows_[id] = problem_.buffers[id].per_sample_bytes > 0;
        if (rows_[id]) continue;
        if (task.batch_rule == BatchRule::Rows || problem_.buffers[id].kind == BufferKind::Variable) return forbid(t);
        split_.is_sum[id] = true;
      }
    split_.has_rows[t] = true;
    finish(t, When::Inside);
  }

  void forbid(TaskId t) { split_.mixing = t; }

  // A value that a task of the micro-batches has read or made must not change before they are all done.
  bool changes_touched(const Task& task) const {
    return any(task.writes, is_touched_) || any(task.updates, is_touched_);
  }

  void finish(TaskId t, When when) {
    const Task& task = problem_.tasks[t];
    split_.when[t] = when;
    for (const auto* list : {&task.writes, &task.updates})
      for (const BufferId id : *list) is_late_[id] = when == When::After || split_.is_sum[id];
    if (when == When::Before) return;
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list) is_touched_[id] = true;
  }

  // Values that only micro-batches need are made inside, where they can be dropped between uses and recomputed for the
  // next micro-batch.
  void move_inside() {
    // By buffer, from the end of the program on: used by the micro-batches; used by a task that stays before them.
    std::vector<bool> is_used(problem_.buffers.size(), false), is_held(problem_.buffers.size(), false);
    for (TaskId t = static_cast<TaskId>(problem_.tasks.size()) - 1; t >= 0; --t) {
      const Task& task = problem_.tasks[t];
      if (split_.when[t] == When::Before) {
        const bool may = task.recomputable && task.updates.empty() && any(task.writes, is_used) &&
                         !any(task.writes, is_held) && !any(task.reads, is_held) &&
                         std::all_of(task.writes.begin(), task.writes.end(),
                                     [&](BufferId id) { return problem_.buffers[id].kind == BufferKind::Temporary; });
        if (may) split_.when[t] = When::Inside;
      }
      if (split_.when[t] == When::Inside)
        for (const BufferId id : task.reads) is_used[id] = true;
      if (split_.when[t] != When::Before) continue;
      for (const auto* list : {&task.reads, &task.writes, &task.updates})
        for (const BufferId id : *list)
          if (list != &task.reads || problem_.buffers[id].kind == BufferKind::Temporary) is_held[id] = true;
    }
  }

  const Problem& problem_;
  Split split_;
  std::vector<bool> rows_, is_late_, is_touched_;  // by buffer, as the program goes on
};

}  // namespace

Split find_split(const Problem& problem) { return Finder(problem).run(); }

std::vector<int64_t> cut_batch(int64_t batch, int64_t samples) {
  if (samples <= 0 || samples >= batch) return {batch};
  std::vector<int64_t> micro_batches(static_cast<size_t>(batch / samples), samples);
  if (batch % samples > 0) micro_batches.push_back(batch % samples);
  return micro_batches;
}

}  // namespace plimsoll::plan
