#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "plan/pack/pack_large.h"
#include "plan/packings.h"

namespace plimsoll::plan {
namespace {

using testing::Dice;
using testing::find_fault;

constexpr LargeBudget kEffort{.greedy_looks = 10'000'000,  //
                              .repair_looks = 10'000'000,
                              .scans = 100'000'000,
                              .nodes = 100'000};

// Lives anywhere in time: most bytes are alive for a short time only.
Boxes scattered_boxes(uint64_t seed, int count) {
  Dice dice(seed);
  Boxes boxes;
  for (int i = 0; i < count; ++i) {
    const auto lower = static_cast<int32_t>(dice.below(count));
    const int64_t longest = dice.below(5) == 0 ? count / 20 : 60;
    boxes.push_back({lower, lower + 2 + static_cast<int32_t>(dice.below(longest)), 1 + dice.below(10'000)});
  }
  return boxes;
}

std::vector<PackItem> as_items(const Boxes& boxes) {
  std::vector<PackItem> items;
  for (const Box& box : boxes) items.push_back({box.lower, box.upper, box.size});
  return items;
}

BoxOrder largest_first(const Boxes& boxes) {
  BoxOrder order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return boxes[a].size > boxes[b].size; });
  return order;
}

std::string fault_of(const Boxes& boxes, const Offsets& offsets) {
  return find_fault(as_items(boxes), {offsets, height_of(boxes, offsets), load_of(boxes)}, 1);
}

TEST(PackContended, ScatteredLivesPackToTheBound) {
  const Boxes boxes = scattered_boxes(1, 12'000);
  const Packing packing = pack(as_items(boxes), 1, 0, {.nodes = 1'000'000});
  EXPECT_EQ(find_fault(as_items(boxes), packing, 1), "");
  EXPECT_LE(packing.height, packing.lower_bound / 1000 * 1001);
}

TEST(PackContended, IsNeverHigherAndNeedsNoMoreThanItsBudget) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Boxes boxes = scattered_boxes(seed, 3000);
    const Offsets before = place_on_skyline(boxes, largest_first(boxes));
    EXPECT_EQ(pack_contended_first(boxes, before, 0, {}), before) << seed;
    EXPECT_EQ(pack_contended_first(boxes, before, height_of(boxes, before), kEffort), before) << seed;
    const Offsets after = pack_contended_first(boxes, before, 0, kEffort);
    EXPECT_LT(height_of(boxes, after), height_of(boxes, before)) << seed;
    EXPECT_EQ(fault_of(boxes, after), "") << seed;
    EXPECT_EQ(after, pack_contended_first(boxes, before, 0, kEffort)) << seed;
  }
}

TEST(PackContended, CompletesWhatIsPlaced) {
  const Boxes boxes = scattered_boxes(2, 1000);
  const BoxOrder order = largest_first(boxes);
  Offsets some = place_on_skyline(boxes, order);
  const Bytes capacity = height_of(boxes, some);
  BoxOrder others;
  for (const int32_t i : order)
    if (i % 3 == 0) {
      others.push_back(i);
      some[static_cast<size_t>(i)] = -1;
    }
  int64_t looks = 10'000'000;
  const Offsets all = complete(boxes, some, others, capacity, looks);
  ASSERT_FALSE(all.empty());
  EXPECT_LT(looks, 10'000'000);
  EXPECT_LE(height_of(boxes, all), capacity);
  EXPECT_EQ(fault_of(boxes, all), "");
  EXPECT_TRUE(complete(boxes, some, others, load_of(boxes) - 1, looks).empty());
  looks = 0;
  EXPECT_TRUE(complete(boxes, some, others, capacity, looks).empty());
}

}  // namespace
}  // namespace plimsoll::plan
