// Planned pieces by structure: a loop plans once and then looks up. Bounded in bytes; the least recently used goes.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "eager/planned_piece.h"

namespace plimsoll::eager {

class PlanCache {
 public:
  explicit PlanCache(Bytes most_bytes) : most_bytes_(most_bytes) {}

  // The goal that computes these targets of the piece that the builder describes.
  std::shared_ptr<const PieceGoal> goal(const PieceBuilder& builder, std::span<const PieceValue> targets, bool updates);
  PlannedPiece& planned(const std::shared_ptr<const PieceGoal>& goal, int32_t wanted);
  // Called after planning: drops plans over the bound, but not the last one that was asked for.
  void keep_bound();

  lower::KernelStore& kernels() { return kernels_; }
  size_t size() const { return planned_.size(); }
  int64_t planned_count = 0;  // plans made so far
  double planning_ns = 0;

 private:
  struct Entry {
    std::unique_ptr<PlannedPiece> planned;
    int64_t last_used = 0;
  };
  std::shared_ptr<const CodePiece> piece(const PieceBuilder& builder);
  void drop_unused();

  Bytes most_bytes_;
  std::unordered_multimap<uint64_t, std::shared_ptr<const CodePiece>> pieces_;
  std::unordered_multimap<const CodePiece*, std::shared_ptr<const PieceGoal>> goals_;
  std::unordered_multimap<const PieceGoal*, Entry> planned_;
  lower::KernelStore kernels_;
  Bytes bytes_ = 0;
  int64_t clock_ = 0;
};

}  // namespace plimsoll::eager
