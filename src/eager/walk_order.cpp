#include "eager/walk_order.h"

#include <algorithm>

namespace plimsoll::eager {
namespace {

constexpr Bytes kSmallBytes = 32 * KiB;  // values up to this size are not counted: make_room never drops them

class UpdateMover {
 public:
  UpdateMover(const std::vector<WalkTask>& tasks, const std::vector<WalkSlot>& slots, size_t buffers)
      : tasks_(tasks),
        slots_(slots),
        is_done_(tasks.size(), false),
        unread_(slots.size(), 0),
        depends_(slots.size()),
        changes_(buffers, 0),
        readers_(buffers),
        is_changed_(buffers, false) {
    for (size_t s = 0; s < slots.size(); ++s) unread_[s] = slots[s].uses;
    for (size_t t = 0; t < tasks.size(); ++t)
      for (const WalkOperand& operand : tasks[t].in)
        readers_[static_cast<size_t>(operand.buffer)].push_back({static_cast<plan::TaskId>(t), operand.version});
    find_dependences(buffers);
    find_waiting();
  }

  std::vector<plan::TaskId> run(const std::vector<plan::TaskId>& order) {
    for (const plan::TaskId task : order) {
      if (is_done_[static_cast<size_t>(task)] || is_waiting_[static_cast<size_t>(task)]) continue;
      for (const WalkOperand& operand : tasks_[static_cast<size_t>(task)].in) bring_to_version(operand, order);
      add(task);
      move_updates();
    }
    for (const plan::TaskId task : order)
      if (!is_done_[static_cast<size_t>(task)]) add(task);
    return std::move(result_);
  }

 private:
  struct Reader {
    plan::TaskId task;
    int32_t version;
  };

  // By slot: the buffers of variables that it is made from.
  void find_dependences(size_t buffers) {
    for (std::vector<bool>& set : depends_) set.assign(buffers, false);
    for (const WalkTask& task : tasks_) {
      std::vector<bool> all(buffers, false);
      for (const WalkOperand& operand : task.in) {
        if (operand.slot < 0) continue;
        const auto s = static_cast<size_t>(operand.slot);
        if (slots_[s].kind == WalkSlot::Kind::Leaf)
          all[static_cast<size_t>(operand.buffer)] = true;
        else
          for (size_t b = 0; b < buffers; ++b) all[b] = all[b] || depends_[s][b];
      }
      for (const int32_t slot : task.writes) depends_[static_cast<size_t>(slot)] = all;
    }
  }

  // Updates, and tasks whose small results only updates read.
  void find_waiting() {
    is_waiting_.assign(tasks_.size(), false);
    std::vector<bool> only_waiting(slots_.size(), true);  // by slot: its readers wait
    for (size_t t = tasks_.size(); t-- > 0;) {
      const WalkTask& task = tasks_[t];
      const auto is_for_updates = [&](int32_t slot) {
        const WalkSlot& of = slots_[static_cast<size_t>(slot)];
        return of.kind == WalkSlot::Kind::Temporary && of.bytes <= kSmallBytes && of.uses > 0 &&
               only_waiting[static_cast<size_t>(slot)];
      };
      is_waiting_[t] = !task.changes.empty() ||
                       (!task.writes.empty() && std::all_of(task.writes.begin(), task.writes.end(), is_for_updates));
      if (is_waiting_[t])
        waiting_.push_back(static_cast<plan::TaskId>(t));
      else
        for (const int32_t slot : task.reads) only_waiting[static_cast<size_t>(slot)] = false;
    }
    std::reverse(waiting_.begin(), waiting_.end());
  }

  void add(plan::TaskId id) {
    const WalkTask& task = tasks_[static_cast<size_t>(id)];
    is_done_[static_cast<size_t>(id)] = true;
    result_.push_back(id);
    for (const int32_t slot : task.reads) --unread_[static_cast<size_t>(slot)];
    for (const plan::BufferId buffer : task.changes) {
      ++changes_[static_cast<size_t>(buffer)];
      is_changed_[static_cast<size_t>(buffer)] = true;
    }
  }

  bool is_made(int32_t slot) const {
    const std::vector<plan::TaskId>& writers = slots_[static_cast<size_t>(slot)].writers;
    return std::all_of(writers.begin(), writers.end(),
                       [&](plan::TaskId task) { return is_done_[static_cast<size_t>(task)]; });
  }

  // Its operands are there, and no earlier reader of a variable that it changes is left.
  bool is_ready(plan::TaskId id) const {
    const WalkTask& task = tasks_[static_cast<size_t>(id)];
    for (const WalkOperand& operand : task.in) {
      if (changes_[static_cast<size_t>(operand.buffer)] != operand.version) return false;
      if (operand.slot >= 0 && slots_[static_cast<size_t>(operand.slot)].kind == WalkSlot::Kind::Temporary &&
          !is_made(operand.slot))
        return false;
    }
    for (const plan::BufferId buffer : task.changes)
      for (const Reader& reader : readers_[static_cast<size_t>(buffer)])
        if (reader.task != id && reader.version <= changes_[static_cast<size_t>(buffer)] &&
            !is_done_[static_cast<size_t>(reader.task)])
          return false;
    return true;
  }

  // For a task that reads a variable after a change: adds the tasks that change it.
  void bring_to_version(const WalkOperand& operand, const std::vector<plan::TaskId>& order) {
    if (changes_[static_cast<size_t>(operand.buffer)] >= operand.version &&
        (operand.slot < 0 || slots_[static_cast<size_t>(operand.slot)].kind == WalkSlot::Kind::Leaf ||
         is_made(operand.slot)))
      return;
    // Rare, so simply all waiting tasks in the given order, until the variable has its version.
    for (const plan::TaskId task : order) {
      if (changes_[static_cast<size_t>(operand.buffer)] >= operand.version &&
          (operand.slot < 0 || is_made(operand.slot)))
        return;
      if (is_waiting_[static_cast<size_t>(task)] && !is_done_[static_cast<size_t>(task)]) add(task);
    }
  }

  // Large values that are still needed and that can be recomputed only until one of these buffers changes.
  Bytes kept_by(const std::vector<bool>& changing) const {
    Bytes bytes = 0;
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].kind != WalkSlot::Kind::Temporary || slots_[s].bytes <= kSmallBytes || unread_after_[s] == 0 ||
          !is_made(static_cast<int32_t>(s)))
        continue;
      bool is_lost = false, will_be = false;
      for (size_t b = 0; b < changing.size(); ++b) {
        is_lost = is_lost || (depends_[s][b] && is_changed_[b]);
        will_be = will_be || (depends_[s][b] && changing[b]);
      }
      if (will_be && !is_lost) bytes += slots_[s].bytes;
    }
    return bytes;
  }

  void move_updates() {
    std::vector<plan::TaskId> ready;
    for (const plan::TaskId task : waiting_)
      if (!is_done_[static_cast<size_t>(task)] && is_ready(task)) ready.push_back(task);
    if (ready.empty()) return;
    std::vector<bool> changing(is_changed_.size(), false);
    unread_after_ = unread_;
    Bytes freed = 0;
    for (const plan::TaskId id : ready) {
      for (const plan::BufferId buffer : tasks_[static_cast<size_t>(id)].changes)
        changing[static_cast<size_t>(buffer)] = true;
      for (const int32_t slot : tasks_[static_cast<size_t>(id)].reads)
        if (--unread_after_[static_cast<size_t>(slot)] == 0 &&
            slots_[static_cast<size_t>(slot)].kind == WalkSlot::Kind::Temporary)
          freed += slots_[static_cast<size_t>(slot)].bytes;
    }
    if (kept_by(changing) > freed) return;
    for (const plan::TaskId task : ready) add(task);
    std::erase_if(waiting_, [&](plan::TaskId task) { return is_done_[static_cast<size_t>(task)]; });
    move_updates();  // those that these make ready: after the count of steps, the updates that read it
  }

  const std::vector<WalkTask>& tasks_;
  const std::vector<WalkSlot>& slots_;
  std::vector<bool> is_done_, is_waiting_;      // by task
  std::vector<int32_t> unread_, unread_after_;  // by slot: readers that are not done
  std::vector<std::vector<bool>> depends_;      // by slot, by buffer
  std::vector<int32_t> changes_;                // by buffer: done
  std::vector<std::vector<Reader>> readers_;    // by buffer
  std::vector<bool> is_changed_;                // by buffer
  std::vector<plan::TaskId> waiting_, result_;
};

}  // namespace

std::vector<plan::TaskId> update_early(const std::vector<plan::TaskId>& order, const std::vector<WalkTask>& tasks,
                                       const std::vector<WalkSlot>& slots, size_t buffers) {
  return UpdateMover(tasks, slots, buffers).run(order);
}

}  // namespace plimsoll::eager
