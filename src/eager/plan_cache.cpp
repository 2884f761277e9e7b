#include "eager/plan_cache.h"

#include <algorithm>

namespace plimsoll::eager {

std::shared_ptr<const CodePiece> PlanCache::piece(const PieceBuilder& builder) {
  const uint64_t hash = hash_of(builder.key());
  const auto [first, last] = pieces_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (at->second->key == builder.key()) return at->second;
  return pieces_.emplace(hash, builder.build())->second;
}

std::shared_ptr<const PieceGoal> PlanCache::goal(const PieceBuilder& builder, std::span<const PieceValue> targets,
                                                 bool updates) {
  std::shared_ptr<const CodePiece> of = piece(builder);
  const auto [first, last] = goals_.equal_range(of.get());
  for (auto at = first; at != last; ++at)
    if (at->second->updates == updates && std::ranges::equal(at->second->targets, targets)) return at->second;
  const CodePiece* const key = of.get();
  return goals_
      .emplace(key, std::make_shared<PieceGoal>(std::move(of), std::vector(targets.begin(), targets.end()), updates))
      ->second;
}

PlannedPiece& PlanCache::planned(const std::shared_ptr<const PieceGoal>& goal, int32_t wanted) {
  const auto [first, last] = planned_.equal_range(goal.get());
  auto at = std::find_if(first, last, [&](const auto& entry) { return entry.second.planned->wanted() == wanted; });
  if (at == last) at = planned_.emplace(goal.get(), Entry{std::make_unique<PlannedPiece>(goal, wanted)});
  at->second.last_used = ++clock_;
  return *at->second.planned;
}

void PlanCache::keep_bound() {
  const auto count = [&] {
    bytes_ = 0;
    for (const auto& [hash, piece] : pieces_) bytes_ += piece->bytes();
    for (const auto& [goal, entry] : planned_) bytes_ += entry.planned->bytes();
  };
  count();
  bool has_dropped = false;
  while (bytes_ > most_bytes_ && planned_.size() > 1) {
    const auto oldest = std::min_element(planned_.begin(), planned_.end(), [](const auto& a, const auto& b) {
      return a.second.last_used < b.second.last_used;
    });
    if (oldest->second.last_used == clock_) break;
    planned_.erase(oldest);
    has_dropped = true;
    drop_unused();
    count();
  }
  if (has_dropped) kernels_.drop_unused();
}

// Drops goals and pieces that no plan and no record of a value needs. Plans and records hold their goal, a goal its
// piece.
void PlanCache::drop_unused() {
  std::erase_if(goals_, [](const auto& entry) { return entry.second.use_count() == 1; });
  std::erase_if(pieces_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace plimsoll::eager
