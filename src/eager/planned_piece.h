// A piece made ready to compute some of its values: lowered, planned, and bound to memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "eager/piece.h"
#include "lower/lower.h"
#include "memory/arena.h"
#include "plan/plan.h"
#include "run/executor.h"

namespace plimsoll::eager {

class PlannedPiece {
 public:
  // `targets` are values of its nodes. With `updates`, nodes that change variables run too.
  PlannedPiece(std::shared_ptr<const CodePiece> piece, std::vector<PieceValue> targets, bool updates);

  const CodePiece& piece() const { return *piece_; }
  const std::vector<PieceValue>& targets() const { return targets_; }
  bool updates() const { return updates_; }

  // Plans it into at most so many bytes and binds it to the arena; a Shortfall leaves the earlier plan as it was.
  std::optional<plan::Shortfall> plan(Bytes limit, std::byte* arena, lower::KernelStore& kernels);
  bool is_planned() const { return executor_ != nullptr; }
  Bytes arena_bytes() const { return arena_bytes_; }
  Bytes planned_limit() const { return planned_limit_; }
  double predicted_ns() const { return predicted_ns_; }
  // Of one, relative to the time without a limit: 0.1 is 10 %.
  double slowdown() const { return slowdown_; }

  // Memory of each leaf, and of each target, in order; constants have their own.
  void run(const kernels::StepState& state, std::span<std::byte* const> leaves, std::span<std::byte* const> targets);
  const graph::Op* op_of_action(int32_t action) const { return action_ops_[static_cast<size_t>(action)]; }

  Bytes bytes() const;  // that it takes itself, about

 private:
  struct Place {
    plan::BufferId buffer;
    int32_t number;  // of the leaf or target
    Bytes offset;
    bool is_target;
  };
  struct Lowered;
  Lowered lower(lower::KernelStore& kernels) const;
  void bind(const Lowered& lowered, const plan::Plan& plan, std::byte* arena);

  std::shared_ptr<const CodePiece> piece_;
  std::vector<PieceValue> targets_;
  bool updates_;
  std::unique_ptr<run::Executor> executor_;
  std::vector<Place> places_;
  std::vector<std::byte*> by_buffer_;
  std::unique_ptr<memory::Arena> constants_;
  std::vector<const graph::Op*> action_ops_;
  Bytes arena_bytes_ = 0, planned_limit_ = 0;
  double predicted_ns_ = 0, slowdown_ = 0;
};

}  // namespace plimsoll::eager
