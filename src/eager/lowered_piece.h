// A piece lowered to a program: the kernels that compute it, in a planned step or in a walk (eager/walk.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eager/piece.h"
#include "lower/lower.h"
#include "memory/arena.h"

namespace plimsoll::eager {

// What one run of a piece computes. The goal decides the kernels: a value that is recomputed later is recomputed from
// the same goal, and so has the same bits.
struct PieceGoal {
  PieceGoal(std::shared_ptr<const CodePiece> of, std::vector<PieceValue> wanted, bool with_updates);

  std::shared_ptr<const CodePiece> piece;
  std::vector<PieceValue> targets;  // values of its nodes
  bool updates;                     // nodes that change variables run too
  // By target: the leaves that it depends on, without constants.
  std::vector<std::vector<int32_t>> leaves_of;
  std::vector<bool> is_repeatable;  // by target: all operators that lead to it give the same bits again
};

class LoweredPiece {
 public:
  static constexpr int32_t kAllTargets = -1;
  // A buffer, or the tile of one, that is in the memory of a leaf or a target.
  struct Place {
    plan::BufferId buffer;
    int32_t number;  // of the leaf or target
    Bytes offset;
    bool is_target;
  };

  // All of the goal, or the tasks of the same program that lead to one target.
  LoweredPiece(const PieceGoal& goal, int32_t wanted, lower::KernelStore& kernels);
  ~LoweredPiece();

  const lower::Program& program() const { return program_; }
  const std::vector<Place>& places() const { return places_; }
  // Copies constants into memory of their own, and sets their addresses in `by_buffer`. Null when there are none.
  std::unique_ptr<memory::Arena> copy_constants(std::span<std::byte*> by_buffer) const;
  // The operator of a task and the types that it reads: "matmul of f32[2,3], f32[3,4]".
  std::string describe(plan::TaskId task) const;

 private:
  struct BuiltGraph;
  class NodeAdder;
  void add_leaves(const CodePiece& piece);
  void find_places(const CodePiece& piece);
  void keep_only(int32_t target);

  std::unique_ptr<BuiltGraph> built_;
  lower::Program program_;
  std::vector<Place> places_;
};

}  // namespace plimsoll::eager
