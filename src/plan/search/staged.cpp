#include "plan/search/staged.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::plan {
namespace {

using When = Split::When;

constexpr double kDiskBytesPerSecond = 1e9;

constexpr TaskId kBegin = -1, kEnd = -2;  // in the sequence of tasks

class Stager {
 public:
  Stager(const Problem& problem, const Limits& limits, const Split& split, const std::vector<TaskId>& order,
         const Stored& stored)
      : problem_(problem), limits_(limits), split_(split), stored_(stored) {
    staged_.micro_batches = cut_batch(limits.batch, problem.micro_batch);
    in_micro_batches_ = staged_.micro_batches.size() > 1;
    if (!in_micro_batches_) {
      sequence_ = order;
    } else {
      append(order, When::Before);
      sequence_.push_back(kBegin);
      append(order, When::Inside);
      sequence_.push_back(kEnd);
      append(order, When::After);
    }
  }

  Staged run() {
    staged_.problem.name = problem_.name;
    staged_.problem.spaces = problem_.spaces;
    save_of_.assign(problem_.buffers.size(), -1);
    load_of_.assign(problem_.buffers.size(), -1);
    if (limits_.disk_read_bytes_per_s > 0) staged_.load_factor = kDiskBytesPerSecond / limits_.disk_read_bytes_per_s;
    if (limits_.disk_write_bytes_per_s > 0) staged_.save_factor = kDiskBytesPerSecond / limits_.disk_write_bytes_per_s;
    staged_.problem.buffers = problem_.buffers;
    staged_.buffer_of.resize(problem_.buffers.size());
    for (size_t b = 0; b < problem_.buffers.size(); ++b) staged_.buffer_of[b] = static_cast<BufferId>(b);
    now_ = staged_.buffer_of;
    find_uses();
    staged_.problem.tasks.reserve(sequence_.size());
    for (size_t i = 0; i < sequence_.size(); ++i) {
      if (sequence_[i] == kBegin || sequence_[i] == kEnd)
        add_mark(sequence_[i]);
      else
        add_task(static_cast<int32_t>(i));
    }
    staged_.sizes = measure(staged_.problem, limits_.batch, staged_.micro_batches.front());
    return std::move(staged_);
  }

 private:
  void append(const std::vector<TaskId>& order, When when) {
    for (const TaskId task : order)
      if (split_.when[task] == when) sequence_.push_back(task);
  }

  bool is_stored_variable(BufferId id) const { return !stored_.variables.empty() && stored_.variables[id]; }
  bool is_stored_value(BufferId id) const { return !stored_.values.empty() && stored_.values[id]; }

  // Where each stored buffer is first needed, last changed, and for how long a value is idle.
  void find_uses() {
    const size_t buffers = problem_.buffers.size();
    first_use_.assign(buffers, -1);
    last_change_.assign(buffers, -1);
    save_after_.assign(buffers, -1);
    load_before_.assign(buffers, -1);
    std::vector<int32_t> last_use(buffers, -1);
    for (int32_t i = 0; i < static_cast<int32_t>(sequence_.size()); ++i) {
      if (sequence_[i] < 0) continue;
      const Task& task = problem_.tasks[sequence_[i]];
      for (const auto* list : {&task.reads, &task.writes, &task.updates})
        for (const BufferId id : *list) {
          if (first_use_[id] < 0) first_use_[id] = i;
          if (list == &task.updates) last_change_[id] = i;
          if (last_use[id] >= 0 && i - last_use[id] > load_before_[id] - save_after_[id]) {
            save_after_[id] = last_use[id];
            load_before_[id] = i;
          }
          last_use[id] = i;
        }
    }
    for (size_t b = 0; b < buffers; ++b) {
      const bool is_stored = is_stored_variable(static_cast<BufferId>(b)) || is_stored_value(static_cast<BufferId>(b));
      if (is_stored_variable(static_cast<BufferId>(b))) staged_.problem.buffers[b].kind = BufferKind::Temporary;
      if (is_stored) staged_.disk_bytes += round_up(placed_bytes(problem_.buffers[b], limits_.batch), kDiskBlock);
    }
  }

  int64_t samples_of(TaskId task) const {
    return in_micro_batches_ && split_.has_rows[task] ? staged_.micro_batches.front() : limits_.batch;
  }
  double times(When when) const {
    return in_micro_batches_ && when == When::Inside ? static_cast<double>(staged_.micro_batches.size()) : 1.0;
  }

  void add_task(int32_t at) {
    const TaskId id = sequence_[at];
    const Task& from = problem_.tasks[id];
    const When when = in_micro_batches_ ? split_.when[id] : When::Before;
    for (const auto* list : {&from.reads, &from.updates})
      for (const BufferId b : *list) {
        if (is_stored_variable(b) && first_use_[b] == at) add_load(b, b, when);
        if (is_stored_value(b) && load_before_[b] == at && now_[b] == b) add_load(b, add_copy(b), when);
      }
    Task task = from;
    task.variants.clear();
    task.fixed_ns = cost_ns(from, samples_of(id)) * times(when);
    task.per_sample_ns = 0;
    // A value made before the micro-batches stays where it is for all of them.
    if (in_micro_batches_ && when == When::Before) task.recomputable = false;
    for (auto* list : {&task.reads, &task.updates})
      for (BufferId& b : *list) b = now_[b];
    if (in_micro_batches_ && when == When::Inside) add_to_sums(task);
    if (task.lane == Lane::Compute) staged_.ns += task.fixed_ns;
    push(std::move(task), {.task = id}, in_micro_batches_ && split_.has_rows[id]);
    for (const auto* list : {&from.reads, &from.writes, &from.updates})
      for (const BufferId b : *list) {
        if (is_stored_variable(b) && last_change_[b] == at) add_save(b, when);
        if (is_stored_value(b) && save_after_[b] == at && now_[b] == b) add_save(b, when);
      }
  }

  // Whether all micro-batches share the buffer: it comes alive at the begin mark, and each of them changes it.
  bool is_shared(BufferId id) const {
    const Buffer& buffer = problem_.buffers[id];
    return split_.is_sum[id] || (holds_whole_batch(buffer) && buffer.kind != BufferKind::Input);
  }

  void add_to_sums(Task& task) const {
    std::vector<BufferId> writes;
    std::vector<int32_t> new_index(task.writes.size(), -1);
    for (size_t w = 0; w < task.writes.size(); ++w) {
      if (is_shared(task.writes[w])) {
        task.updates.push_back(task.writes[w]);
      } else {
        new_index[w] = static_cast<int32_t>(writes.size());
        writes.push_back(task.writes[w]);
      }
    }
    if (writes.size() == task.writes.size()) return;
    std::vector<InPlace> may_share;
    for (const InPlace& pair : task.may_share)
      if (new_index[pair.write] >= 0) may_share.push_back({pair.read, new_index[pair.write]});
    task.writes = std::move(writes);
    task.may_share = std::move(may_share);
  }

  void add_mark(TaskId mark) {
    Task task;
    task.name = mark == kBegin ? "begin of the micro-batches" : "end of the micro-batches";
    std::vector<bool> is_listed(problem_.buffers.size(), false);
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      if (split_.when[t] != When::Inside) continue;
      for (const BufferId id : problem_.tasks[t].writes) {
        if (!is_shared(id) || is_listed[id]) continue;
        is_listed[id] = true;
        (mark == kBegin ? task.writes : task.reads).push_back(id);
      }
    }
    // Inputs, and values made before, are read by all micro-batches: they live to the end mark.
    std::vector<bool> is_made_inside(problem_.buffers.size(), false);
    for (size_t t = 0; t < problem_.tasks.size(); ++t)
      if (split_.when[t] == When::Inside)
        for (const BufferId id : problem_.tasks[t].writes) is_made_inside[id] = true;
    for (size_t t = 0; t < problem_.tasks.size() && mark == kEnd; ++t) {
      if (split_.when[t] != When::Inside) continue;
      for (const BufferId id : problem_.tasks[t].reads) {
        if (is_made_inside[id] || is_listed[id] || staged_.problem.buffers[id].kind == BufferKind::Variable) continue;
        if (is_stored_variable(id)) continue;
        is_listed[id] = true;
        task.reads.push_back(id);
      }
    }
    (mark == kBegin ? staged_.begin : staged_.end) = static_cast<TaskId>(staged_.problem.tasks.size());
    push(std::move(task), {}, false);
  }

  BufferId add_copy(BufferId id) {
    const auto copy = static_cast<BufferId>(staged_.problem.buffers.size());
    staged_.problem.buffers.push_back(problem_.buffers[id]);
    staged_.buffer_of.push_back(id);
    now_[id] = copy;
    return copy;
  }

  void add_load(BufferId id, BufferId into, When when) {
    Task task = make_load(problem_, id, transfer_ns(id));
    const TaskId meaning = find_transfer(load_of_[id], task, staged_.load_factor);
    task.writes = {into};
    task.fixed_ns *= times(when);
    push(std::move(task), {.task = meaning}, false);
  }

  void add_save(BufferId id, When when) {
    Task task = make_save(problem_, id, transfer_ns(id));
    const TaskId meaning = find_transfer(save_of_[id], task, staged_.save_factor);
    task.reads = {now_[id]};
    task.fixed_ns *= times(when);
    push(std::move(task), {.task = meaning}, false);
  }

  // The plan's transfer for it, with the time that the measured disk takes.
  TaskId find_transfer(TaskId& known, const Task& task, double factor) {
    if (known >= 0) return known;
    known = static_cast<TaskId>(problem_.tasks.size() + staged_.transfers.size());
    staged_.transfers.push_back(task);
    staged_.transfers.back().fixed_ns *= factor;
    return known;
  }

  double transfer_ns(BufferId id) const {
    const auto bytes = static_cast<double>(placed_bytes(problem_.buffers[id], staged_.micro_batches.front()));
    return std::round(bytes / kDiskBytesPerSecond * 1e9);
  }

  void push(Task task, const Action& meaning, bool has_rows) {
    staged_.problem.tasks.push_back(std::move(task));
    staged_.meaning.push_back(meaning);
    staged_.has_rows.push_back(has_rows);
  }

  const Problem& problem_;
  const Limits& limits_;
  const Split& split_;
  const Stored& stored_;
  bool in_micro_batches_ = false;
  std::vector<TaskId> sequence_;
  std::vector<BufferId> now_;  // by buffer of the problem: the one that holds it at this place of the sequence
  std::vector<TaskId> save_of_, load_of_;                                    // by buffer: the plan's task
  std::vector<int32_t> first_use_, last_change_, save_after_, load_before_;  // by buffer: places in the sequence
  Staged staged_;
};

}  // namespace

Staged stage(const Problem& problem, const Limits& limits, const Split& split, const std::vector<TaskId>& order,
             const Stored& stored) {
  return Stager(problem, limits, split, order, stored).run();
}

}  // namespace plimsoll::plan
