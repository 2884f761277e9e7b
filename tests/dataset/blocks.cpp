// Blocks of a dataset: what ranks read together is the whole, each element once, and its place stays.
#include "dataset/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> numbers_of(const Dataset& dataset, int64_t skipped = 0) {
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  if (skipped > 0) iteration.seek({iteration.state().dataset, 0, skipped});
  std::vector<int64_t> numbers;
  while (const ElementView* element = iteration.next()) numbers.push_back(element->as<int64_t>(0)[0]);
  return numbers;
}

// Without random access, and with a random change of each element.
Dataset mapped(const Dataset& numbers) {
  return numbers.random_map(
      numbers.element(),
      [](const ElementView& from, const ElementSlot& to, uint64_t key) {
        to.as<int64_t>(0)[0] = from.as<int64_t>(0)[0] * 1000 + static_cast<int64_t>(key % 1000);
      },
      7);
}

TEST(Blocks, AreThoseOfEachPeriod) {
  const Dataset numbers = Dataset::range(11);
  EXPECT_THAT(numbers_of(dataset::take_blocks(numbers, 4, 0, 2)), ElementsAre(0, 1, 4, 5, 8, 9));
  EXPECT_THAT(numbers_of(dataset::take_blocks(numbers, 4, 2, 2)), ElementsAre(2, 3, 6, 7, 10));
  EXPECT_EQ(dataset::take_blocks(numbers, 4, 2, 2).size(), 5);
  EXPECT_TRUE(dataset::take_blocks(numbers, 4, 2, 2).is_random_access());
}

TEST(Blocks, KeepWhatRandomMapsDoAndSkipInBoth) {
  const Dataset shuffled = Dataset::range(23).shuffle({.seed = 3});
  for (const Dataset& all : {shuffled, mapped(shuffled)}) {
    const std::vector<int64_t> whole = numbers_of(all);
    for (int64_t rank = 0; rank < 3; ++rank) {
      const Dataset own = dataset::take_blocks(all, 6, rank * 2, 2);
      std::vector<int64_t> expected;
      for (size_t i = 0; i < whole.size(); ++i)
        if (static_cast<int64_t>(i % 6) / 2 == rank) expected.push_back(whole[i]);
      EXPECT_EQ(numbers_of(own), expected);
      for (const int64_t skipped : {1, 2, 3, 5})
        EXPECT_EQ(numbers_of(own, skipped), std::vector<int64_t>(expected.begin() + skipped, expected.end()));
    }
  }
}

TEST(Blocks, MustLieInTheirPeriod) {
  EXPECT_THROW(dataset::take_blocks(Dataset::range(9), 4, 3, 2), Error);
  EXPECT_THROW(dataset::take_blocks(Dataset::range(9), 4, 0, 0), Error);
}

}  // namespace
}  // namespace plimsoll
