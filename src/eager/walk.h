// Runs a program task by task where no plan of it fits. Each value that a task does not read may be dropped and
// recomputed by the tasks that lead to it, or be spilled: at any time only the operands of one task, and of those that
// recompute them, must be in memory. The kernels are those of the plan, so the bits are too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "eager/value_store.h"
#include "eager/walk_program.h"

namespace plimsoll::eager {

class TaskWalk : public Remaker {
 public:
  // Called before a variable changes. False: no room for what was made from it.
  using BeforeChange = std::function<bool(EagerValue& variable)>;
  // Values by leaf, null where it is a constant or not needed, and by target.
  TaskWalk(ValueStore& store, std::shared_ptr<const WalkProgram> program, const kernels::StepState& state,
           std::span<EagerValue* const> leaves, std::span<EagerValue* const> targets, BeforeChange before_change);
  ~TaskWalk() override;
  TaskWalk(const TaskWalk&) = delete;
  TaskWalk& operator=(const TaskWalk&) = delete;

  // The task that lacks most memory when all that may be dropped is dropped, before anything has run.
  struct Lack {
    plan::TaskId task;
    Bytes own;      // what it reads and writes, and its workspace
    Bytes missing;  // of these
  };
  std::optional<Lack> find_lack() const;

  bool run();  // false: no room
  plan::TaskId stuck_at() const { return program_->order()[static_cast<size_t>(position_)]; }
  bool has_changed_variables() const { return changed_ > 0; }

  bool remake(EagerValue& of) override;
  bool can_remake(const EagerValue& of) const override;
  double remake_ns(const EagerValue& of) const override;
  double distance(const EagerValue& of) const override;

 private:
  class Pinned;
  EagerValue& value(int32_t slot) const { return *values_[static_cast<size_t>(slot)]; }
  bool is_there(int32_t slot) const;
  bool is_needed(int32_t slot) const;
  bool is_lost(int32_t slot) const;
  bool can_run_again(plan::TaskId id) const;
  bool can_make(int32_t slot) const;
  // Slots whose values are missing and are needed to recompute this one, through other missing ones; itself first.
  std::vector<int32_t> find_missing(int32_t slot) const;
  bool reads(int32_t slot, std::span<const plan::BufferId> buffers) const;
  bool is_relied_on(int32_t slot) const;

  bool bring(int32_t slot);
  bool gather(const WalkTask& task, bool holds, Pinned& pinned);
  bool take_memory(const WalkTask& task, Pinned& pinned);
  bool run_task(plan::TaskId id);
  void call_kernel(plan::TaskId id, bool is_slim, std::byte* workspace);
  bool keep_what_relies_on(const WalkTask& task);
  void finish(const WalkTask& task);
  void spend(int32_t slot);
  void drop_if_small(EagerValue& of);

  ValueStore& store_;
  std::shared_ptr<const WalkProgram> program_;
  const kernels::StepState state_;
  BeforeChange before_change_;
  std::vector<EagerValue*> values_;    // by slot
  std::vector<int32_t> uses_left_;     // by slot: tasks that did not run yet
  std::vector<int32_t> changes_done_;  // by buffer
  std::vector<bool> is_changing_;      // by buffer: the task at hand changes it
  std::vector<const void*> in_;        // of the kernel that runs
  std::vector<void*> out_;
  int32_t position_ = 0;  // in the order
  int64_t runs_ = 0, changed_ = 0;
};

}  // namespace plimsoll::eager
