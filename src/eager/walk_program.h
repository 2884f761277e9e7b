// A lowered piece as a walk sees it: tasks, and the memory of the values that they touch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "eager/lowered_piece.h"

namespace plimsoll::eager {

// The memory of one value.
struct WalkSlot {
  enum class Kind : uint8_t { Leaf, Target, Temporary };
  Kind kind;
  int32_t number;  // of the leaf or target; -1
  Bytes bytes;
  DType dtype;
  const graph::Op* op = nullptr;           // that makes it
  std::vector<plan::TaskId> writers = {};  // several where tiles make it
  int32_t uses = 0;                        // tasks that read it
  std::vector<int32_t> readers = {};       // their positions in the order
};

struct WalkOperand {
  int32_t slot;  // -1: a constant
  plan::BufferId buffer;
  Bytes offset;         // into the memory of the slot, or of the constant
  int32_t version = 0;  // of a variable's buffer: how many changes it has seen in program order
};

struct WalkTask {
  std::vector<WalkOperand> in, out;          // arguments of the kernel
  std::vector<int32_t> reads, writes;        // slots, each once; those that were made first come first
  std::vector<plan::BufferId> changes = {};  // of variables
  std::vector<int32_t> changed_slots = {};   // these are among `reads`
  bool recomputable = false;
  Bytes workspace = 0, slim_workspace = -1;  // -1: there is no other way
  double ns = 0;
};

class WalkProgram {
 public:
  WalkProgram(const PieceGoal& goal, int32_t wanted, lower::KernelStore& kernels);

  const LoweredPiece& lowered() const { return lowered_; }
  const std::vector<WalkSlot>& slots() const { return slots_; }
  const std::vector<WalkTask>& tasks() const { return tasks_; }
  const std::vector<plan::TaskId>& order() const { return order_; }
  size_t buffers() const { return slot_of_.size(); }
  std::byte* constant(plan::BufferId id) const { return constants_at_[static_cast<size_t>(id)]; }
  kernels::Kernel& kernel(plan::TaskId task, bool slim) const;
  const graph::Op* op_of(plan::TaskId task) const { return lowered_.program().tasks[static_cast<size_t>(task)].op; }
  double predicted_ns() const { return predicted_ns_; }

 private:
  void add_slots(const PieceGoal& goal, int32_t wanted);
  void add_task(plan::TaskId id, std::vector<int32_t>& changes_before);
  void choose_order();

  LoweredPiece lowered_;
  std::vector<WalkSlot> slots_;
  std::vector<WalkTask> tasks_;
  std::vector<plan::TaskId> order_;
  std::vector<int32_t> slot_of_;  // by buffer; -1: a constant, or not used
  std::vector<Bytes> offset_of_;  // by buffer, into its slot
  std::unique_ptr<memory::Arena> constants_;
  std::vector<std::byte*> constants_at_;
  double predicted_ns_ = 0;
};

}  // namespace plimsoll::eager
