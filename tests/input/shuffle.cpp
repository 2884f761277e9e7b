#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/collect.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int64_t> counted(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int64_t> sorted(std::vector<int64_t> numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

TEST(DatasetShuffle, IsAPermutationForEveryKindOfWindow) {
  for (const Dataset& dataset :
       {Dataset::range(50).shuffle(), Dataset::range(50).shuffle(7), counting(50).shuffle(7), counting(50).shuffle(50),
        counting(50).shuffle(80), Dataset::range(50).shuffle({.bytes = 1000}),
        counting(50).shuffle({.bytes = 40 * KiB})}) {
    SCOPED_TRACE(to_string(dataset));
    EXPECT_NE(flat(dataset), counted(50));
    EXPECT_EQ(sorted(flat(dataset)), counted(50));
    EXPECT_EQ(flat(dataset), flat(dataset));
  }
}

TEST(DatasetShuffle, AWindowHoldsElementsBackByItsSizeAtMost) {
  for (const Dataset& dataset : {Dataset::range(1000).shuffle(8), counting(1000).shuffle(8)}) {
    const std::vector<int64_t> order = flat(dataset);
    for (size_t i = 0; i < order.size(); ++i) EXPECT_LT(order[i], static_cast<int64_t>(i) + 8);
  }
  EXPECT_EQ(flat(counting(20).shuffle(1)), counted(20));
}

TEST(DatasetShuffle, TheSameWindowGivesTheSameOrderWithAndWithoutRandomAccess) {
  EXPECT_EQ(flat(Dataset::range(100).shuffle(9, 3)), flat(counting(100).shuffle(9, 3)));
}

TEST(DatasetShuffle, EveryPlaceOfAWindowIsEquallyLikely) {
  std::vector<int> first(10);
  for (uint64_t seed = 0; seed < 5000; ++seed) ++first[static_cast<size_t>(flat(counting(10).shuffle(10, seed), 1)[0])];
  for (const int count : first) EXPECT_NEAR(count, 500, 100);
}

TEST(DatasetShuffle, EachEpochHasAnOrderOfItsOwnUnlessAskedNot) {
  for (const Dataset& dataset : {Dataset::range(20), counting(20)})
    for (const bool reshuffle : {true, false}) {
      const Dataset shuffled = dataset.shuffle({.count = 20, .seed = 5, .reshuffle = reshuffle});
      MemoryLine line;
      Iteration iteration = shuffled.on(line);
      const std::vector<int64_t> first = flat(collect(iteration));
      iteration.start_epoch(1);
      const std::vector<int64_t> second = flat(collect(iteration));
      EXPECT_EQ(first == second, !reshuffle);
      std::vector<int64_t> both = first;
      both.insert(both.end(), second.begin(), second.end());
      // Epochs do not mix, and rounds of repeat are epochs.
      EXPECT_EQ(flat(shuffled.repeat(2)), both);
    }
}

TEST(DatasetShuffle, GoesBelowMapsOverRandomAccess) {
  const Dataset dataset = times_ten(Dataset::range(30), 2).shuffle();
  EXPECT_EQ(to_string(dataset), "range(0,30,1).shuffle(seed 0).map(to value i64[])");
  std::vector<int64_t> expected = flat(Dataset::range(30).shuffle());
  for (int64_t& number : expected) number *= 10;
  EXPECT_EQ(flat(dataset), expected);
}

TEST(DatasetShuffle, BatchesOfRandomAccessAreShuffledWhole) {
  Elements batches = collect(Dataset::range(10).batch(3).shuffle(ShuffleOptions{.seed = 1}));
  EXPECT_NE(batches, (Elements{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}}));
  std::ranges::sort(batches);
  EXPECT_EQ(batches, (Elements{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}}));
}

TEST(DatasetShuffle, RefusesAWindowThatCannotBe) {
  EXPECT_THAT([] { counting(5).shuffle(); }, ThrowsMessage<Error>(HasSubstr("can't be read in any order")));
  EXPECT_THAT([] { counting(5).shuffle(-1); }, ThrowsMessage<Error>(HasSubstr("above 0")));
  EXPECT_THAT([] { counting(5).shuffle({.bytes = 8}); }, ThrowsMessage<Error>(HasSubstr("hold no element")));
  EXPECT_THAT([] { counting(5).shuffle(int64_t{1} << 61); }, ThrowsMessage<Error>(HasSubstr("can't be held")));
}

TEST(DatasetShuffle, AWindowHoldsNoMoreThanThereIs) {
  EXPECT_EQ(Dataset::range(5).shuffle(int64_t{1} << 61).bytes(), Dataset::range(5).shuffle(5).bytes());
  EXPECT_EQ(flat(Dataset::range(9).shuffle(1000)), flat(Dataset::range(9).shuffle(9)));
  const Dataset taken = counting(90).take(20);
  EXPECT_EQ(taken.shuffle(1000).bytes(), taken.shuffle(20).bytes());
  EXPECT_EQ(flat(taken.shuffle(1000)), flat(taken.shuffle(20)));
}

}  // namespace
}  // namespace plimsoll::testing
