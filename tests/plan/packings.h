// Packing problems by rule, and what is wrong with a packing.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "plan/pack/pack.h"
#include "plan/problems.h"

namespace plimsoll::testing {

using namespace plan;

// Items with a known optimum: cuts time x height at random until there are `count` pieces, which fit back into exactly
// `height` without a gap.
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

// Cells of branches that run in turns: a cell reads the outputs of the two before it, and ends by joining its branches.
inline std::vector<PackItem> branching_trace(uint64_t seed, int cells) {
  constexpr Bytes kBase = 64 * 640;
  Dice dice(seed);
  const auto size = [&](int64_t eighths) { return kBase * (1 + dice.below(eighths)) / 8 * (97 + dice.below(7)) / 100; };
  std::vector<PackItem> items;
  int64_t now = 0;
  for (int cell = 0; cell < cells; ++cell) {
    std::vector<int64_t> last_at(static_cast<size_t>(3 + dice.below(4)), -1);
    for (int64_t turns = 8 + dice.below(16); turns > 0; --turns, ++now) {
      int64_t& last = last_at[static_cast<size_t>(dice.below(static_cast<int64_t>(last_at.size())))];
      if (last >= 0) items.push_back({last, now + 1, size(10)});
      items.push_back({now, now + 1, size(4)});  // workspace
      last = now;
    }
    for (const int64_t last : last_at)
      if (last >= 0) items.push_back({last, now + 1, size(10)});
    ++now;
    items.push_back({now - 1, now + 24 + dice.below(16), size(12)});
  }
  return items;
}

// Training on micro-batches in a pipeline: one forward, one backward in turns, `depth` of them under way.
inline std::vector<PackItem> pipeline_trace(uint64_t seed, int64_t micro_batches, int64_t layers, int64_t depth) {
  Dice dice(seed);
  std::vector<Bytes> sizes;
  for (int64_t layer = 0; layer < layers; ++layer) sizes.push_back(64 * (2000 + dice.below(18'000)));
  std::vector<PackItem> items;
  std::vector<int64_t> begins(static_cast<size_t>(micro_batches * layers));
  int64_t now = 0;
  for (int64_t turn = 0; turn < micro_batches + depth; ++turn) {
    for (int64_t layer = 0; layer < layers && turn < micro_batches; ++layer, now += 2) {
      begins[static_cast<size_t>(turn * layers + layer)] = now;
      items.push_back({now, now + 2, 2 * sizes[static_cast<size_t>(layer)]});
      items.push_back({now, now + 1 + dice.below(60), 64 * (1 + dice.below(4))});
    }
    for (int64_t layer = layers - 1; layer >= 0 && turn >= depth; --layer, now += 2) {
      const int64_t begin = begins[static_cast<size_t>((turn - depth) * layers + layer)];
      items.push_back({begin, now + 1 + dice.below(3), sizes[static_cast<size_t>(layer)]});
      items.push_back({begin, now + 1, sizes[static_cast<size_t>(layers - 1 - layer)]});
      items.push_back({now, now + 1 + dice.below(4), sizes[static_cast<size_t>(layer)]});
    }
  }
  return items;
}

// Compares all pairs: slow, but simple enough to trust.
inline std::string find_fault(const std::vector<PackItem>& items, const Packing& packing, Bytes alignment) {
  Bytes height = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Bytes end = packing.offsets[i] + items[i].size;
    height = std::max(height, end);
    if (packing.offsets[i] < 0 || packing.offsets[i] % alignment != 0) return "unaligned " + std::to_string(i);
    for (size_t j = 0; j < i; ++j)
      if (items[i].lower < items[j].upper && items[j].lower < items[i].upper &&
          packing.offsets[i] < packing.offsets[j] + items[j].size && packing.offsets[j] < end)
        return std::to_string(i) + " overlaps " + std::to_string(j);
  }
  if (round_up(height, alignment) != round_up(packing.height, alignment)) return "height";
  if (packing.height < packing.lower_bound) return "below the bound";
  return "";
}

}  // namespace plimsoll::testing
