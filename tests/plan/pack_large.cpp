#include "plan/pack/pack_large.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "plan/pack/pack_tree.h"
#include "plan/packings.h"

namespace plimsoll::plan {
namespace {

using testing::branching_trace;
using testing::Dice;
using testing::find_fault;
using testing::pipeline_trace;

constexpr PackBudget kEffort{.nodes = 1'000'000};

double ratio(const Packing& packing) {
  return static_cast<double>(packing.height) / static_cast<double>(packing.lower_bound);
}

Boxes random_boxes(uint64_t seed, int count) {
  Dice dice(seed);
  Boxes boxes;
  for (int i = 0; i < count; ++i) {
    const auto lower = static_cast<int32_t>(dice.below(200));
    boxes.push_back(
        {lower, lower + 1 + static_cast<int32_t>(dice.below(dice.below(4) == 0 ? 90 : 6)), 1 + dice.below(50)});
  }
  return boxes;
}

TEST(PackLarge, TracesPackWithinOneHundredthOfTheBound) {
  const std::vector<std::vector<PackItem>> traces{branching_trace(1, 330), branching_trace(2, 420),
                                                  pipeline_trace(3, 40, 60, 4)};
  for (size_t k = 0; k < traces.size(); ++k) {
    ASSERT_GE(traces[k].size(), 10'000) << k;
    const Packing packing = pack(traces[k], 64, 0, kEffort);
    EXPECT_EQ(find_fault(traces[k], packing, 64), "") << k;
    EXPECT_LE(ratio(packing), 1.01) << k;
  }
}

TEST(PackLarge, AMovedBoxIsFound) {
  const std::vector<PackItem> items = branching_trace(1, 330);
  Packing packing = pack(items, 64, 0, {});
  ASSERT_EQ(find_fault(items, packing, 64), "");
  const Packing sound = packing;
  size_t meets_first = 1;
  while (items[meets_first].lower >= items[0].upper || items[0].lower >= items[meets_first].upper) ++meets_first;
  packing.offsets[meets_first] = packing.offsets[0];
  EXPECT_NE(find_fault(items, packing, 64).find("overlaps"), std::string::npos);
  packing = sound;
  packing.offsets[7] += 1;
  EXPECT_EQ(find_fault(items, packing, 64), "unaligned 7");
}

TEST(PackLarge, RepeatsItself) {
  const std::vector<PackItem> items = branching_trace(5, 330);
  const PackBudget short_effort{.nodes = 100'000};
  EXPECT_EQ(pack(items, 64, 0, short_effort).offsets, pack(items, 64, 0, short_effort).offsets);
}

TEST(PackLarge, StopsAtWhatIsEnough) {
  const std::vector<PackItem> items = branching_trace(6, 330);
  const Packing lowest = pack(items, 64, 0, kEffort);
  const Bytes enough = lowest.lower_bound / 50 * 51;
  const Packing stopped = pack(items, 64, enough, kEffort);
  EXPECT_EQ(find_fault(items, stopped, 64), "");
  EXPECT_LE(stopped.height, enough);
  EXPECT_LE(lowest.height, stopped.height);
  EXPECT_LE(pack_into(items, 64, enough, kEffort).height, enough);
}

TEST(PackLarge, RepairLowersAndNeverRaises) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Boxes boxes = random_boxes(seed, 300);
    std::vector<PackItem> items;
    for (const Box& box : boxes) items.push_back({box.lower, box.upper, box.size});
    BoxOrder order(boxes.size());
    std::iota(order.begin(), order.end(), 0);
    const Offsets before = place_on_skyline(boxes, order);
    EXPECT_EQ(repair(boxes, before, 0, 0), before);
    const Offsets after = repair(boxes, before, 0, 200'000);
    EXPECT_LT(height_of(boxes, after), height_of(boxes, before)) << seed;
    EXPECT_EQ(find_fault(items, {after, height_of(boxes, after), load_of(boxes)}, 1), "") << seed;
  }
}

TEST(PackLarge, TheTreeFindsWhatIsAliveTogether) {
  const Boxes boxes = random_boxes(7, 400);
  BoxOrder order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  const Offsets offsets = place_on_skyline(boxes, order);
  PlacedTree tree(boxes);
  for (const int32_t i : order) tree.add(i, offsets[i]);
  for (int32_t i = 0; i < 400; i += 3) tree.remove(i, offsets[i]);
  int64_t meetings = 0;
  for (const int32_t i : order) {
    std::multiset<int32_t> expected, found;
    for (const int32_t j : order) {
      const bool meets = boxes[i].lower < boxes[j].upper && boxes[j].lower < boxes[i].upper;
      meetings += meets && j < i;
      if (meets && j % 3 != 0) expected.insert(j);
    }
    tree.gather(i);
    for (const PlacedTree::Placed& placed : tree.by_offset()) found.insert(placed.box);
    ASSERT_EQ(found, expected) << i;
    const auto& by_offset = tree.by_offset();
    const auto& by_end = tree.by_end();
    EXPECT_TRUE(std::is_sorted(by_offset.begin(), by_offset.end(),
                               [](const auto& a, const auto& b) { return a.offset < b.offset; }));
    EXPECT_TRUE(
        std::is_sorted(by_end.begin(), by_end.end(), [](const auto& a, const auto& b) { return a.end < b.end; }));
  }
  EXPECT_EQ(count_meetings(boxes), meetings);
}

TEST(PackLarge, PlacesInTheTreeAsAmongAllBoxes) {
  const Boxes boxes = random_boxes(8, 500);
  BoxOrder order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  for (const Fit fit : {Fit::Lowest, Fit::Tightest}) {
    int64_t looks = 1'000'000;
    EXPECT_EQ(place_in_tree(boxes, order, fit, looks), place_in_holes(boxes, order, fit, 1000));
    EXPECT_LT(looks, 1'000'000);
  }
}

}  // namespace
}  // namespace plimsoll::plan
