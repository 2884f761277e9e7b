#include "plan/pack/pack.h"

#include <gtest/gtest.h>

#include "plan/packings.h"

namespace plimsoll::plan {
namespace {

using testing::cut_rectangle;
using testing::Dice;
using testing::find_fault;

TEST(Pack, Nothing) {
  EXPECT_EQ(pack({}, 64, 0, {}).height, 0);
  const std::vector<PackItem> empty{{0, 5, 0}, {3, 3, 7}};
  EXPECT_EQ(pack(empty, 64, 0, {}).offsets.size(), 2);
}

TEST(Pack, AlignsEverything) {
  const std::vector<PackItem> items{{0, 2, 1}, {0, 2, 65}, {1, 3, 64}, {2, 4, 100}};
  const Packing packing = pack(items, 64, 0, {});
  EXPECT_EQ(find_fault(items, packing, 64), "");
  EXPECT_EQ(packing.height, 256);
  EXPECT_EQ(packing.lower_bound, 256);
}

TEST(Pack, NestedLivesStackUp) {
  std::vector<PackItem> items;
  constexpr int64_t kDepth = 2000;
  for (int64_t i = 0; i < kDepth; ++i) items.push_back({i, 2 * kDepth - i, 64 * (1 + i % 7)});
  const Packing packing = pack(items, 64, 0, {});
  EXPECT_EQ(packing.height, packing.lower_bound);
  EXPECT_EQ(find_fault(items, packing, 64), "");
}

TEST(Pack, RandomProblemsAreValidAndNearTheBound) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    std::vector<PackItem> items;
    for (int i = 0; i < 300; ++i) {
      const int64_t lower = dice.below(1000);
      items.push_back({lower, lower + 1 + dice.below(dice.below(4) == 0 ? 500 : 20), 1 + dice.below(10'000)});
    }
    const Packing packing = pack(items, 64, 0, {});
    EXPECT_EQ(find_fault(items, packing, 64), "") << seed;
    EXPECT_LE(static_cast<double>(packing.height), 1.15 * static_cast<double>(packing.lower_bound)) << seed;
  }
}

TEST(Pack, ManyBoxesStayAffordable) {
  Dice dice(7);
  std::vector<PackItem> items;
  for (int64_t i = 0; i < 30'000; ++i)  // activations kept for long, and what is made and used up nearby
    items.push_back(i % 3 == 0 ? PackItem{i, 60'000 - i, 64 * (1 + dice.below(50))}
                               : PackItem{i, i + 1 + dice.below(8), 64 * (1 + dice.below(50))});
  const Packing packing = pack(items, 64, 0, {});
  EXPECT_LE(static_cast<double>(packing.height), 1.01 * static_cast<double>(packing.lower_bound));
}

TEST(Pack, StopsAtWhatIsEnough) {
  const std::vector<PackItem> items = cut_rectangle(3, 80, 1000, 64 * 1000, 64);
  const Packing lowest = pack(items, 64, 0, {});
  const Packing enough = pack(items, 64, 64 * 2000, {});
  EXPECT_LE(lowest.height, enough.height);
  EXPECT_EQ(find_fault(items, enough, 64), "");
}

}  // namespace
}  // namespace plimsoll::plan
