#include "eager/walk_program.h"

#include <algorithm>
#include <variant>

#include "eager/walk_order.h"
#include "plan/make_plan.h"

namespace plimsoll::eager {
namespace {

Bytes bytes_of(const TensorType& type) { return element_count(type.shape).fixed() * size_of(type.dtype); }

void add_once(std::vector<int32_t>& list, int32_t number) {
  if (std::find(list.begin(), list.end(), number) == list.end()) list.push_back(number);
}

}  // namespace

WalkProgram::WalkProgram(const PieceGoal& goal, int32_t wanted, lower::KernelStore& kernels)
    : lowered_(goal, wanted, kernels) {
  const size_t buffers = lowered_.program().problem.buffers.size();
  slot_of_.assign(buffers, -1);
  offset_of_.assign(buffers, 0);
  constants_at_.assign(buffers, nullptr);
  constants_ = lowered_.copy_constants(constants_at_);
  add_slots(goal, wanted);
  std::vector<int32_t> changes_before(buffers, 0);
  for (plan::TaskId t = 0; t < std::ssize(lowered_.program().problem.tasks); ++t) add_task(t, changes_before);
  choose_order();
}

kernels::Kernel& WalkProgram::kernel(plan::TaskId task, bool slim) const {
  const lower::ProgramTask& of = lowered_.program().tasks[static_cast<size_t>(task)];
  return *(slim ? of.slim : of.own).first;
}

void WalkProgram::add_slots(const PieceGoal& goal, int32_t wanted) {
  const CodePiece& piece = *goal.piece;
  std::vector<int32_t> of_leaf(piece.leaves.size(), -1), of_target(goal.targets.size(), -1);
  for (const LoweredPiece::Place& place : lowered_.places()) {
    int32_t& slot = (place.is_target ? of_target : of_leaf)[static_cast<size_t>(place.number)];
    if (slot < 0) {
      const int32_t target = wanted == LoweredPiece::kAllTargets ? place.number : wanted;
      const TensorType& type =
          piece.types[static_cast<size_t>(place.is_target ? goal.targets[static_cast<size_t>(target)] : place.number)];
      slot = static_cast<int32_t>(slots_.size());
      slots_.push_back(
          {place.is_target ? WalkSlot::Kind::Target : WalkSlot::Kind::Leaf, place.number, bytes_of(type), type.dtype});
    }
    slot_of_[static_cast<size_t>(place.buffer)] = slot;
    offset_of_[static_cast<size_t>(place.buffer)] = place.offset;
  }
  const lower::Program& program = lowered_.program();
  for (size_t b = 0; b < slot_of_.size(); ++b) {
    if (slot_of_[b] >= 0 || constants_at_[b] != nullptr) continue;
    slot_of_[b] = static_cast<int32_t>(slots_.size());
    slots_.push_back(
        {WalkSlot::Kind::Temporary, -1, placed_bytes(program.problem.buffers[b], 1), program.buffer_types[b]});
  }
}

void WalkProgram::add_task(plan::TaskId id, std::vector<int32_t>& changes_before) {
  const plan::Task& from = lowered_.program().problem.tasks[static_cast<size_t>(id)];
  const lower::ProgramTask& kernels = lowered_.program().tasks[static_cast<size_t>(id)];
  WalkTask task;
  task.recomputable = from.recomputable;
  task.workspace = workspace_bytes(from, 1);
  if (!from.variants.empty()) task.slim_workspace = workspace_bytes(from.variants[0], 1);
  task.ns = cost_ns(from, 1);
  predicted_ns_ += task.ns;
  const auto operand = [&](plan::BufferId buffer, Bytes offset) {
    const auto b = static_cast<size_t>(buffer);
    return WalkOperand{slot_of_[b], buffer, offset_of_[b] + offset, changes_before[b]};
  };
  for (const lower::KernelOperand& in : kernels.own.in) {
    const bool is_changed = in.list == lower::KernelOperand::List::Updates;
    task.in.push_back(operand((is_changed ? from.updates : from.reads)[static_cast<size_t>(in.index)], in.offset));
  }
  for (const plan::BufferId buffer : from.writes) task.out.push_back(operand(buffer, 0));
  for (const plan::BufferId buffer : from.reads)
    if (const int32_t slot = slot_of_[static_cast<size_t>(buffer)]; slot >= 0) add_once(task.reads, slot);
  for (const plan::BufferId buffer : from.writes) add_once(task.writes, slot_of_[static_cast<size_t>(buffer)]);
  for (const plan::BufferId buffer : from.updates) {
    const int32_t slot = slot_of_[static_cast<size_t>(buffer)];
    // A target that is a view of another value is assigned as a whole: its old content is not read.
    if (slots_[static_cast<size_t>(slot)].kind == WalkSlot::Kind::Target) {
      task.recomputable = true;
      add_once(task.writes, slot);
      continue;
    }
    add_once(task.reads, slot);
    add_once(task.changed_slots, slot);
    task.changes.push_back(buffer);
    ++changes_before[static_cast<size_t>(buffer)];
  }
  const auto made_by = [&](int32_t slot) {
    const WalkSlot& of = slots_[static_cast<size_t>(slot)];
    return of.writers.empty() ? -1 : of.writers.back();
  };
  std::sort(task.reads.begin(), task.reads.end(), [&](int32_t a, int32_t b) { return made_by(a) < made_by(b); });
  for (const int32_t slot : task.reads) ++slots_[static_cast<size_t>(slot)].uses;
  for (const int32_t slot : task.writes) {
    slots_[static_cast<size_t>(slot)].writers.push_back(id);
    slots_[static_cast<size_t>(slot)].op = kernels.op;
  }
  tasks_.push_back(std::move(task));
}

void WalkProgram::choose_order() {
  plan::Limits limits;
  limits.pack_nodes = 1;
  limits.levers = {.variants = false, .recompute = false, .micro_batch = false, .spill = false};
  const std::variant<plan::Plan, plan::Shortfall> answer = plan::make_plan(lowered_.program().problem, limits);
  std::vector<plan::TaskId> lowest;
  for (const plan::Action& action : std::get<plan::Plan>(answer).actions) lowest.push_back(action.task);
  order_ = update_early(lowest, tasks_, slots_, buffers());
  for (size_t at = 0; at < order_.size(); ++at)
    for (const int32_t slot : tasks_[static_cast<size_t>(order_[at])].reads)
      slots_[static_cast<size_t>(slot)].readers.push_back(static_cast<int32_t>(at));
}

}  // namespace plimsoll::eager
