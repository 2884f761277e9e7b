#include "eager/walk.h"

#include <algorithm>

namespace plimsoll::eager {
namespace {

// Where operands do not fit together while they are recomputed, each is recomputed without holding the others. Each
// level of that may double the work, so the walk stops doing it after this many runs for each of its tasks.
constexpr int64_t kMostRuns = 200;

Bytes least_workspace(const WalkTask& task) {
  return task.slim_workspace < 0 ? task.workspace : std::min(task.workspace, task.slim_workspace);
}

}  // namespace

// Values that stay in memory while it lives.
class TaskWalk::Pinned {
 public:
  Pinned() = default;
  ~Pinned() { clear(); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void add(EagerValue& value) {
    ++value.pins;
    values_.push_back(&value);
  }
  void clear() {
    for (EagerValue* value : values_) --value->pins;
    values_.clear();
  }

 private:
  std::vector<EagerValue*> values_;
};

TaskWalk::TaskWalk(ValueStore& store, std::shared_ptr<const WalkProgram> program, const kernels::StepState& state,
                   std::span<EagerValue* const> leaves, std::span<EagerValue* const> targets,
                   BeforeChange before_change)
    : store_(store),
      program_(std::move(program)),
      state_(state),
      before_change_(std::move(before_change)),
      changes_done_(program_->buffers(), 0),
      is_changing_(program_->buffers(), false) {
  values_.reserve(program_->slots().size());
  for (const WalkSlot& slot : program_->slots()) {
    uses_left_.push_back(slot.uses);
    if (slot.kind == WalkSlot::Kind::Leaf) {
      values_.push_back(leaves[static_cast<size_t>(slot.number)]);
      continue;
    }
    const bool is_target = slot.kind == WalkSlot::Kind::Target;
    EagerValue* const made = is_target ? targets[static_cast<size_t>(slot.number)] : store_.add();
    made->walk = this;
    made->slot = static_cast<int32_t>(values_.size());
    values_.push_back(made);
    if (is_target) continue;
    made->bytes = slot.bytes;
    made->op = slot.op;
    made->type = {slot.dtype, {slot.bytes / size_of(slot.dtype)}};
    for (const plan::TaskId task : slot.writers) made->make_ns += program_->tasks()[static_cast<size_t>(task)].ns;
  }
}

TaskWalk::~TaskWalk() {
  for (size_t s = 0; s < values_.size(); ++s) {
    const WalkSlot::Kind kind = program_->slots()[s].kind;
    if (kind == WalkSlot::Kind::Target) values_[s]->walk = nullptr;
    if (kind == WalkSlot::Kind::Temporary) store_.release(*values_[s]);
  }
}

std::optional<TaskWalk::Lack> TaskWalk::find_lack() const {
  const Bytes free = store_.most_bytes();
  std::optional<Lack> worst;
  for (plan::TaskId t = 0; t < std::ssize(program_->tasks()); ++t) {
    const WalkTask& task = program_->tasks()[static_cast<size_t>(t)];
    Bytes own = MemoryPool::block_bytes(least_workspace(task)), there = 0;
    if (least_workspace(task) == 0) own = 0;
    std::vector<const EagerValue*> seen;
    const auto add = [&](int32_t slot) {
      const EagerValue& of = value(slot);
      if (std::find(seen.begin(), seen.end(), &of) != seen.end()) return;
      seen.push_back(&of);
      own += MemoryPool::block_bytes(of.bytes);
      if (of.block.is_set() && !store_.may_go(of)) there += of.block.bytes;
    };
    std::for_each(task.reads.begin(), task.reads.end(), add);
    std::for_each(task.writes.begin(), task.writes.end(), add);
    const Bytes missing = own - there - free;
    if (missing > 0 && (!worst || missing > worst->missing)) worst = {t, own, missing};
  }
  return worst;
}

bool TaskWalk::is_there(int32_t slot) const {
  if (program_->slots()[static_cast<size_t>(slot)].kind == WalkSlot::Kind::Leaf) return true;
  const EagerValue::State state = value(slot).state;
  return state == EagerValue::State::InMemory || state == EagerValue::State::InFile;
}

bool TaskWalk::is_needed(int32_t slot) const {
  return program_->slots()[static_cast<size_t>(slot)].kind == WalkSlot::Kind::Target ||
         uses_left_[static_cast<size_t>(slot)] > 0;
}

// Dropped, and still needed.
bool TaskWalk::is_lost(int32_t slot) const {
  return !is_there(slot) && value(slot).state == EagerValue::State::Dropped && is_needed(slot);
}

// Whether running it again gives the same bits: its variables have not changed since.
bool TaskWalk::can_run_again(plan::TaskId id) const {
  const WalkTask& task = program_->tasks()[static_cast<size_t>(id)];
  return task.recomputable && task.changes.empty() &&
         std::all_of(task.in.begin(), task.in.end(), [&](const WalkOperand& operand) {
           const auto buffer = static_cast<size_t>(operand.buffer);
           return changes_done_[buffer] == operand.version && !is_changing_[buffer];
         });
}

std::vector<int32_t> TaskWalk::find_missing(int32_t slot) const {
  std::vector<int32_t> missing{slot};
  std::vector<bool> is_seen(values_.size(), false);
  is_seen[static_cast<size_t>(slot)] = true;
  for (size_t i = 0; i < missing.size(); ++i)
    for (const plan::TaskId writer : program_->slots()[static_cast<size_t>(missing[i])].writers)
      for (const int32_t read : program_->tasks()[static_cast<size_t>(writer)].reads) {
        if (is_there(read) || is_seen[static_cast<size_t>(read)]) continue;
        is_seen[static_cast<size_t>(read)] = true;
        missing.push_back(read);
      }
  return missing;
}

bool TaskWalk::can_make(int32_t slot) const {
  const std::vector<int32_t> missing = find_missing(slot);
  return std::all_of(missing.begin(), missing.end(), [&](int32_t s) {
    const std::vector<plan::TaskId>& writers = program_->slots()[static_cast<size_t>(s)].writers;
    return std::all_of(writers.begin(), writers.end(), [&](plan::TaskId writer) { return can_run_again(writer); });
  });
}

// Whether making it again reads one of these buffers.
bool TaskWalk::reads(int32_t slot, std::span<const plan::BufferId> buffers) const {
  for (const int32_t missing : find_missing(slot))
    for (const plan::TaskId writer : program_->slots()[static_cast<size_t>(missing)].writers)
      for (const WalkOperand& operand : program_->tasks()[static_cast<size_t>(writer)].in)
        if (std::find(buffers.begin(), buffers.end(), operand.buffer) != buffers.end()) return true;
  return false;
}

// Whether something that was dropped and is still needed is made from it.
bool TaskWalk::is_relied_on(int32_t slot) const {
  for (int32_t s = 0; s < std::ssize(values_); ++s) {
    if (!is_lost(s)) continue;
    for (const int32_t missing : find_missing(s))
      for (const plan::TaskId writer : program_->slots()[static_cast<size_t>(missing)].writers) {
        const std::vector<int32_t>& read = program_->tasks()[static_cast<size_t>(writer)].reads;
        if (std::find(read.begin(), read.end(), slot) != read.end()) return true;
      }
  }
  return false;
}

double TaskWalk::remake_ns(const EagerValue& of) const {
  double ns = 0;
  for (const int32_t slot : find_missing(of.slot)) ns += value(slot).make_ns;
  return ns;
}

double TaskWalk::distance(const EagerValue& of) const {
  const std::vector<int32_t>& readers = program_->slots()[static_cast<size_t>(of.slot)].readers;
  const auto next = std::lower_bound(readers.begin(), readers.end(), position_);
  // What the task at hand reads goes last.
  return next == readers.end() ? static_cast<double>(program_->order().size()) : *next - position_ + 0.001;
}

bool TaskWalk::can_remake(const EagerValue& of) const {
  // A target without a record outlives the walk, and can't be recomputed after it.
  if (program_->slots()[static_cast<size_t>(of.slot)].kind == WalkSlot::Kind::Target) return false;
  return can_make(of.slot) || (!is_needed(of.slot) && !is_relied_on(of.slot));
}

// Tasks that lead to it run in program order, so that each finds most of its operands just made.
bool TaskWalk::remake(EagerValue& of) {
  const std::vector<int32_t> missing = find_missing(of.slot);
  std::vector<plan::TaskId> tasks;
  for (const int32_t slot : missing)
    for (const plan::TaskId writer : program_->slots()[static_cast<size_t>(slot)].writers) tasks.push_back(writer);
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  for (const plan::TaskId task : tasks) {
    const std::vector<int32_t>& writes = program_->tasks()[static_cast<size_t>(task)].writes;
    const bool is_made = std::all_of(writes.begin(), writes.end(), [&](int32_t slot) { return is_there(slot); });
    if (!is_made && !run_task(task)) return false;
  }
  for (const int32_t slot : missing)
    if (value(slot).is_spent) drop_if_small(value(slot));
  return of.block.is_set();
}

// make_room drops no small values, so the walk drops them as soon as it can.
void TaskWalk::drop_if_small(EagerValue& of) {
  if (!ValueStore::is_large(of) && of.state == EagerValue::State::InMemory && of.pins == 0 && can_remake(of))
    store_.drop(of);
}

bool TaskWalk::bring(int32_t slot) { return store_.bring_back(value(slot)); }

bool TaskWalk::gather(const WalkTask& task, bool holds, Pinned& pinned) {
  for (const int32_t slot : task.reads) {
    if (!bring(slot)) return false;
    if (holds) pinned.add(value(slot));
  }
  if (holds) return true;
  // Operands that were dropped meanwhile are brought back, while those in memory stay.
  std::vector<int32_t> lost;
  for (const int32_t slot : task.reads) {
    if (value(slot).state == EagerValue::State::InMemory)
      pinned.add(value(slot));
    else
      lost.push_back(slot);
  }
  for (const int32_t slot : lost) {
    if (!bring(slot)) return false;
    pinned.add(value(slot));
  }
  return true;
}

bool TaskWalk::take_memory(const WalkTask& task, Pinned& pinned) {
  for (const int32_t slot : task.writes) {
    EagerValue& of = value(slot);
    if (of.state == EagerValue::State::InFile && !store_.bring_back(of)) return false;
    if (!of.block.is_set() && !store_.allocate(of)) return false;
    pinned.add(of);
  }
  return true;
}

bool TaskWalk::run_task(plan::TaskId id) {
  const WalkTask& task = program_->tasks()[static_cast<size_t>(id)];
  Pinned pinned;
  if (!gather(task, true, pinned)) {
    pinned.clear();
    if (runs_ > kMostRuns * std::ssize(program_->tasks()) || !gather(task, false, pinned)) return false;
  }
  ScratchBlock workspace(store_);
  bool fits = take_memory(task, pinned), is_slim = false;
  if (fits && !workspace.take(task.workspace)) {
    is_slim = task.slim_workspace >= 0;
    fits = is_slim && workspace.take(task.slim_workspace);
  }
  if (!fits) {
    for (const int32_t slot : task.writes)
      if (value(slot).state != EagerValue::State::InMemory) store_.give_back(value(slot));
    return false;
  }
  call_kernel(id, is_slim, workspace.data());
  ++runs_;
  for (const int32_t slot : task.writes) {
    // A target made of tiles is whole after the last of them.
    const std::vector<plan::TaskId>& writers = program_->slots()[static_cast<size_t>(slot)].writers;
    if (writers.back() == id) store_.note_made(value(slot));
  }
  return true;
}

void TaskWalk::call_kernel(plan::TaskId id, bool is_slim, std::byte* workspace) {
  const WalkTask& task = program_->tasks()[static_cast<size_t>(id)];
  const auto place = [&](const WalkOperand& operand) {
    return (operand.slot < 0 ? program_->constant(operand.buffer) : value(operand.slot).block.data) + operand.offset;
  };
  in_.clear();
  out_.clear();
  for (const WalkOperand& operand : task.in) in_.push_back(place(operand));
  for (const WalkOperand& operand : task.out) out_.push_back(place(operand));
  program_->kernel(id, is_slim).run({in_.data(), out_.data(), workspace, &state_, id});
}

// Brings back dropped values that are made from the old version, before the variables change. They are not dropped
// again.
bool TaskWalk::keep_what_relies_on(const WalkTask& task) {
  Pinned pinned;
  for (const int32_t slot : task.changed_slots)
    if (!before_change_(value(slot))) return false;
  for (bool has_found = true; has_found;) {
    has_found = false;
    for (int32_t s = 0; s < std::ssize(values_); ++s) {
      if (!is_lost(s) || !reads(s, task.changes)) continue;
      if (!bring(s)) return false;
      pinned.add(value(s));
      has_found = true;
    }
  }
  for (const plan::BufferId buffer : task.changes) is_changing_[static_cast<size_t>(buffer)] = true;
  return true;
}

void TaskWalk::spend(int32_t slot) {
  EagerValue& of = value(slot);
  if (program_->slots()[static_cast<size_t>(slot)].kind != WalkSlot::Kind::Temporary) return;
  of.is_spent = true;
  drop_if_small(of);
}

void TaskWalk::finish(const WalkTask& task) {
  for (const plan::BufferId buffer : task.changes) {
    ++changes_done_[static_cast<size_t>(buffer)];
    is_changing_[static_cast<size_t>(buffer)] = false;
  }
  for (const int32_t slot : task.changed_slots) {
    ++value(slot).version;
    ++changed_;
  }
  for (const int32_t slot : task.reads)
    if (--uses_left_[static_cast<size_t>(slot)] == 0) spend(slot);
  for (const int32_t slot : task.writes)
    if (uses_left_[static_cast<size_t>(slot)] == 0) spend(slot);
}

bool TaskWalk::run() {
  for (position_ = 0; position_ < std::ssize(program_->order()); ++position_) {
    const plan::TaskId id = program_->order()[static_cast<size_t>(position_)];
    const WalkTask& task = program_->tasks()[static_cast<size_t>(id)];
    if (!task.changes.empty() && !keep_what_relies_on(task)) return false;
    if (!run_task(id)) return false;
    finish(task);
  }
  return true;
}

}  // namespace plimsoll::eager
