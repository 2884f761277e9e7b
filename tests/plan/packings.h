// Packing problems whose optimum is known, because they are cut from one full rectangle.
#pragma once

#include <vector>

#include "plan/pack/pack.h"
#include "plan/problems.h"

namespace plimsoll::testing {

using namespace plan;

// Cuts time x height at random until there are `count` pieces. They fit back into exactly `height`, without a gap.
inline std::vector<PackItem> cut_rectangle(uint64_t seed, int count, int64_t time, Bytes height, Bytes grain) {
  Dice dice(seed);
  struct Piece {
    int64_t lower, upper;
    Bytes bottom, top;
  };
  std::vector<Piece> pieces{{0, time, 0, height}};
  for (int tries = 0; static_cast<int>(pieces.size()) < count && tries < count * 50; ++tries) {
    const auto index = static_cast<size_t>(dice.below(static_cast<int64_t>(pieces.size())));
    Piece& piece = pieces[index];
    Piece other = piece;
    const bool cut_time = dice.below(2) == 0;
    if (cut_time && piece.upper - piece.lower >= 2) {
      piece.upper = other.lower = piece.lower + 1 + dice.below(piece.upper - piece.lower - 1);
    } else if (!cut_time && (piece.top - piece.bottom) / grain >= 2) {
      piece.top = other.bottom = piece.bottom + grain * (1 + dice.below((piece.top - piece.bottom) / grain - 1));
    } else {
      continue;
    }
    pieces.push_back(other);
  }
  std::vector<PackItem> items;
  for (const Piece& piece : pieces) items.push_back({piece.lower, piece.upper, piece.top - piece.bottom});
  return items;
}

}  // namespace plimsoll::testing
