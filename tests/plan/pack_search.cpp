#include "plan/pack/pack_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "plan/packings.h"

namespace plimsoll::plan {
namespace {

using testing::cut_rectangle;
using testing::Dice;

bool overlaps(const Boxes& boxes, const Offsets& offsets) {
  for (size_t i = 0; i < boxes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (boxes[i].lower < boxes[j].upper && boxes[j].lower < boxes[i].upper &&
          offsets[i] < offsets[j] + boxes[j].size && offsets[j] < offsets[i] + boxes[i].size)
        return true;
  return false;
}

// Every packing in which nothing can sink comes from placing boxes lowest-first in some order.
Bytes exhaustive_height(const Boxes& boxes) {
  BoxOrder order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  Bytes best = std::numeric_limits<Bytes>::max();
  do {
    best = std::min(best, height_of(boxes, place_in_holes(boxes, order, Fit::Lowest, 1000)));
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(PackSearch, AgreesWithTryingEverything) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    Boxes boxes;
    for (int i = 0; i < 7; ++i) {
      const auto lower = static_cast<int32_t>(dice.below(6));
      boxes.push_back({lower, lower + 1 + static_cast<int32_t>(dice.below(4)), 1 + dice.below(6)});
    }
    const Bytes optimum = exhaustive_height(boxes);
    int64_t nodes = 100'000;
    const SearchResult fits = pack_search(boxes, optimum, nodes);
    ASSERT_EQ(fits.feasibility, Feasibility::Fits) << seed;
    EXPECT_FALSE(overlaps(boxes, fits.offsets)) << seed;
    EXPECT_LE(height_of(boxes, fits.offsets), optimum) << seed;
    EXPECT_EQ(pack_search(boxes, optimum - 1, nodes).feasibility, Feasibility::Impossible) << seed;
    EXPECT_GT(nodes, 0);
  }
}

// Full at every moment, so that nothing may be wasted; nothing says that it can be packed.
Boxes full_load(uint64_t seed, int32_t times, Bytes height) {
  Dice dice(seed);
  Boxes boxes;
  std::vector<size_t> alive;
  for (int32_t t = 0; t < times; ++t) {
    Bytes room = t == 0 ? height : 0;
    std::erase_if(alive, [&](size_t i) {
      if (dice.below(3) != 0) return false;
      boxes[i].upper = t;
      room += boxes[i].size;
      return true;
    });
    while (room > 0) {
      const Bytes size = 1 + dice.below(std::min<Bytes>(room, 4));
      alive.push_back(boxes.size());
      boxes.push_back({t, times, size});
      room -= size;
    }
  }
  return boxes;
}

// Tries every offset of every box.
bool can_pack(const Boxes& boxes, Bytes capacity, Offsets& offsets, size_t i) {
  if (i == boxes.size()) return true;
  for (offsets[i] = 0; offsets[i] + boxes[i].size <= capacity; ++offsets[i]) {
    bool is_free = true;
    for (size_t j = 0; j < i && is_free; ++j)
      is_free = boxes[i].lower >= boxes[j].upper || boxes[j].lower >= boxes[i].upper ||
                offsets[i] >= offsets[j] + boxes[j].size || offsets[j] >= offsets[i] + boxes[i].size;
    if (is_free && can_pack(boxes, capacity, offsets, i + 1)) return true;
  }
  return false;
}

TEST(PackSearch, KnowsWhatCannotBePacked) {
  int impossible = 0;
  for (const Bytes height : {6, 7})
    for (uint64_t seed = 0; seed < 800; ++seed) {
      const Boxes boxes = full_load(seed, 12, height);
      Offsets offsets(boxes.size());
      const bool can = can_pack(boxes, height, offsets, 0);
      int64_t nodes = 100'000;
      const SearchResult result = pack_search(boxes, height, nodes);
      ASSERT_EQ(result.feasibility, can ? Feasibility::Fits : Feasibility::Impossible) << height << " " << seed;
      EXPECT_FALSE(can && overlaps(boxes, result.offsets));
      impossible += !can;
    }
  EXPECT_GE(impossible, 5) << "some problems must be harder than their bound";
}

TEST(PackSearch, PutsCutRectanglesTogetherAgain) {
  for (const int count : {20, 60, 150, 300})
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const std::vector<PackItem> items = cut_rectangle(seed, count, 1 << 20, 1 << 20, 1024);
      const Packing packing = pack(items, 1024, 0, {.nodes = 200'000});
      EXPECT_EQ(packing.height, 1 << 20) << count << " pieces, seed " << seed;
    }
}

TEST(PackSearch, SaysUnknownWhenTheBudgetEnds) {
  const std::vector<PackItem> items = cut_rectangle(1, 300, 1000, 1 << 20, 1);
  Boxes boxes;
  for (const PackItem& item : items)
    boxes.push_back({static_cast<int32_t>(item.lower), static_cast<int32_t>(item.upper), item.size});
  int64_t nodes = 50;
  EXPECT_EQ(pack_search(boxes, 1 << 20, nodes).feasibility, Feasibility::Unknown);
  EXPECT_LE(nodes, 0);
  nodes = 50;
  EXPECT_EQ(pack_search(boxes, (1 << 20) - 1, nodes).feasibility, Feasibility::Impossible);
}

TEST(PackSearch, RepeatsItself) {
  const std::vector<PackItem> items = cut_rectangle(5, 200, 1000, 1 << 20, 1);
  EXPECT_EQ(pack(items, 1, 0, {.nodes = 50'000}).offsets, pack(items, 1, 0, {.nodes = 50'000}).offsets);
}

TEST(PackSearch, PacksIntoAGivenCapacity) {
  const std::vector<PackItem> items = cut_rectangle(2, 200, 1000, 1 << 20, 1);
  EXPECT_EQ(pack_into(items, 1, 1 << 20, {.nodes = 200'000}).height, 1 << 20);
  const Packing roomy = pack_into(items, 1, (1 << 20) + (1 << 16), {.nodes = 200'000});
  EXPECT_LE(roomy.height, (1 << 20) + (1 << 16));
}

}  // namespace
}  // namespace plimsoll::plan
