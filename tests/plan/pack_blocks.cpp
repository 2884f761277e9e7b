#include "plan/pack/pack_blocks.h"

#include <numeric>

#include <gtest/gtest.h>

#include "plan/packings.h"

namespace plimsoll::plan {
namespace {

using testing::cut_rectangle;
using testing::Dice;
using testing::find_fault;

std::vector<PackItem> items_of(const Boxes& boxes) {
  std::vector<PackItem> items;
  for (const Box& box : boxes) items.push_back({box.lower, box.upper, box.size});
  return items;
}

Boxes boxes_of(const std::vector<PackItem>& items) {
  Boxes boxes;
  for (const PackItem& item : items)
    boxes.push_back({static_cast<int32_t>(item.lower), static_cast<int32_t>(item.upper), item.size});
  return boxes;
}

TEST(PackBlocks, JoinsRowsAndStacks) {
  // On the left a stack of 2 and 3, on the right one of size 5.
  const BoxBlocks blocks({{0, 4, 2}, {0, 4, 3}, {4, 9, 5}});
  const Boxes outermost = blocks.outermost();
  ASSERT_EQ(outermost.size(), 1u);
  EXPECT_EQ(outermost[0].lower, 0);
  EXPECT_EQ(outermost[0].upper, 9);
  EXPECT_EQ(outermost[0].size, 5);
  EXPECT_EQ(blocks.take_apart({7}), (Offsets{7, 9, 7}));
}

TEST(PackBlocks, LeavesWhatDoesNotFitTogether) {
  // Four around one in the middle: no cut goes from side to side.
  const Boxes pinwheel{{0, 2, 1}, {2, 3, 2}, {1, 3, 1}, {0, 1, 2}, {1, 2, 1}};
  const BoxBlocks blocks(pinwheel);
  EXPECT_EQ(blocks.outermost().size(), pinwheel.size());
  EXPECT_TRUE(BoxBlocks(Boxes{}).outermost().empty());
  // Equal sizes with time between them, and equal begins with other ends.
  EXPECT_EQ(BoxBlocks({{0, 2, 4}, {3, 5, 4}, {0, 1, 3}}).outermost().size(), 3u);
}

TEST(PackBlocks, ARectangleCutToPiecesJoinsAgain) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<PackItem> pieces = cut_rectangle(seed, 1000, 1 << 30, Bytes{1} << 40, 1);
    const BoxBlocks blocks(boxes_of(pieces));
    const Boxes outermost = blocks.outermost();
    ASSERT_EQ(outermost.size(), 1u) << seed;
    EXPECT_EQ(outermost[0].size, Bytes{1} << 40);
    EXPECT_EQ(find_fault(pieces, {blocks.take_apart({0}), Bytes{1} << 40, Bytes{1} << 40}, 1), "") << seed;
  }
}

TEST(PackBlocks, WhatIsTakenApartDoesNotOverlap) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Dice dice(seed);
    Boxes boxes;  // few times and sizes, so that many meet by chance
    for (int i = 0; i < 300; ++i) {
      const auto lower = static_cast<int32_t>(dice.below(40));
      boxes.push_back({lower, lower + 1 + static_cast<int32_t>(dice.below(8)), 1 + dice.below(6)});
    }
    const BoxBlocks blocks(boxes);
    const Boxes outermost = blocks.outermost();
    EXPECT_LT(outermost.size(), boxes.size() / 2) << seed;
    BoxOrder order(outermost.size());
    std::iota(order.begin(), order.end(), 0);
    const Offsets offsets = place_on_skyline(outermost, order);
    const Packing packing{blocks.take_apart(offsets), height_of(outermost, offsets), load_of(boxes)};
    EXPECT_EQ(find_fault(items_of(boxes), packing, 1), "") << seed;
  }
}

TEST(PackBlocks, ManyPiecesOfARectanglePackWithinOneHundredthOfTheBound) {
  const std::vector<PackItem> pieces = cut_rectangle(1, 12'000, 1 << 20, Bytes{64} << 24, 64);
  ASSERT_GE(pieces.size(), 10'000u);
  const Packing packing = pack(pieces, 64, 0, {.nodes = 1'000'000});
  EXPECT_EQ(find_fault(pieces, packing, 64), "");
  EXPECT_LE(packing.height, packing.lower_bound / 100 * 101);
}

}  // namespace
}  // namespace plimsoll::plan
