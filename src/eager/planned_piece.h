// A goal made ready: planned and bound to memory, or set up to be walked where no plan fits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "eager/lowered_piece.h"
#include "eager/walk_program.h"
#include "plan/plan.h"
#include "run/executor.h"

namespace plimsoll::eager {

class PlannedPiece {
 public:
  // `wanted` is one of the goal's targets, or LoweredPiece::kAllTargets.
  PlannedPiece(std::shared_ptr<const PieceGoal> goal, int32_t wanted);

  const std::shared_ptr<const PieceGoal>& goal() const { return goal_; }
  int32_t wanted() const { return wanted_; }

  // Plans it into at most so many bytes and binds it to the arena; a Shortfall leaves the earlier plan as it was.
  std::optional<plan::Shortfall> plan(Bytes limit, std::byte* arena, lower::KernelStore& kernels);
  bool is_planned() const { return executor_ != nullptr; }
  Bytes arena_bytes() const { return arena_bytes_; }
  Bytes planned_limit() const { return planned_limit_; }
  // Planning failed below this; 0: it never failed.
  Bytes missed_bytes() const { return missed_bytes_; }
  double predicted_ns() const { return predicted_ns_; }
  // Of the plan, relative to the time without a limit: 0.1 is 10 % slower.
  double slowdown() const { return slowdown_; }

  // Memory of each leaf, and of each target that is wanted, in order; constants have their own. Null: not used.
  void run(const kernels::StepState& state, std::span<std::byte* const> leaves, std::span<std::byte* const> targets);
  const graph::Op* op_of_action(int32_t action) const { return action_ops_[static_cast<size_t>(action)]; }

  // Made at the first call. Shared: the cache may let the piece go while a walk is under way.
  std::shared_ptr<const WalkProgram> walk_program(lower::KernelStore& kernels);

  Bytes bytes() const;  // that it takes itself, about

 private:
  void bind(const LoweredPiece& lowered, const plan::Plan& plan, std::byte* arena);

  std::shared_ptr<const PieceGoal> goal_;
  int32_t wanted_;
  std::unique_ptr<run::Executor> executor_;
  std::shared_ptr<const WalkProgram> walk_;
  std::vector<LoweredPiece::Place> places_;
  std::vector<std::byte*> by_buffer_;
  std::unique_ptr<memory::Arena> constants_;
  std::vector<const graph::Op*> action_ops_;
  Bytes arena_bytes_ = 0, planned_limit_ = 0, missed_bytes_ = 0;
  double predicted_ns_ = 0, slowdown_ = 0;
};

}  // namespace plimsoll::eager
