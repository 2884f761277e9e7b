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

PlannedPiece& PlanCache::planned(const std::shared_ptr<const CodePiece>& piece, std::span<const PieceValue> targets,
                                 bool updates) {
  const auto [first, last] = planned_.equal_range(piece.get());
  auto at = std::find_if(first, last, [&](const auto& entry) {
    const PlannedPiece& planned = *entry.second.planned;
    return planned.updates() == updates && std::ranges::equal(planned.targets(), targets);
  });
  if (at == last)
    at = planned_.emplace(piece.get(), Entry{std::make_unique<PlannedPiece>(
                                           piece, std::vector<PieceValue>(targets.begin(), targets.end()), updates)});
  at->second.last_used = ++clock_;
  return *at->second.planned;
}

void PlanCache::keep_bound() {
  const auto count = [&] {
    bytes_ = 0;
    for (const auto& [hash, piece] : pieces_) bytes_ += piece->bytes();
    for (const auto& [piece, entry] : planned_) bytes_ += entry.planned->bytes();
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
    drop_unused_pieces();
    count();
  }
  if (has_dropped) kernels_.drop_unused();
}

// Those that no plan and no recipe of a value needs.
void PlanCache::drop_unused_pieces() {
  std::erase_if(pieces_, [&](const auto& entry) {
    return entry.second.use_count() == 1 && !planned_.contains(entry.second.get());
  });
}

}  // namespace plimsoll::eager
