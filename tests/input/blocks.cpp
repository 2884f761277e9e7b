// Blocks of a dataset: what ranks read together is the whole, each element once, and its place stays.
#include "input/stages/blocks.h"

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
  EXPECT_THAT(numbers_of(input::take_blocks(numbers, {4, 2, 0, 1})), ElementsAre(0, 1, 4, 5, 8, 9));
  EXPECT_THAT(numbers_of(input::take_blocks(numbers, {4, 2, 1, 1})), ElementsAre(2, 3, 6, 7, 10));
  EXPECT_EQ(input::take_blocks(numbers, {4, 2, 1, 1}).size(), 5);
  EXPECT_TRUE(input::take_blocks(numbers, {4, 2, 1, 1}).is_random_access());
}

TEST(Blocks, KeepWhatRandomMapsDoAndSkipInBoth) {
  const Dataset shuffled = Dataset::range(23).shuffle({.seed = 3});
  for (const Dataset& all : {shuffled, mapped(shuffled)}) {
    const std::vector<int64_t> whole = numbers_of(all);
    for (int64_t rank = 0; rank < 3; ++rank) {
      const Dataset own = input::take_blocks(all, {6, 6, rank * 2, 2});
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
  EXPECT_THROW(input::take_blocks(Dataset::range(9), {4, 4, 3, 2}), Error);
  EXPECT_THROW(input::take_blocks(Dataset::range(9), {4, 4, 0, 0}), Error);
  EXPECT_THROW(input::take_blocks(Dataset::range(9), {4, 5, 0, 1}), Error);
}

// 10 of 4 parts are 3, 3, 2, 2; the last 3 are 1, 1, 1, 0.
TEST(Blocks, DivideWhatDoesNotDivide) {
  const Dataset numbers = Dataset::range(23);
  for (const Dataset& all : {numbers, mapped(numbers)}) {
    const std::vector<int64_t> whole = numbers_of(all);
    std::vector<std::vector<size_t>> expected{
        {0, 1, 2, 10, 11, 12, 20}, {3, 4, 5, 13, 14, 15, 21}, {6, 7, 16, 17, 22}, {8, 9, 18, 19}};
    for (int64_t part = 0; part < 4; ++part) {
      std::vector<int64_t> own;
      for (const size_t i : expected[static_cast<size_t>(part)]) own.push_back(whole[i]);
      const Dataset block = input::take_blocks(all, {10, 4, part, 1});
      EXPECT_EQ(numbers_of(block), own);
      EXPECT_EQ(block.size(), std::ssize(own));
      EXPECT_EQ(numbers_of(block, 2), std::vector<int64_t>(own.begin() + 2, own.end()));
    }
  }
}

// Parts 1, 3 and 5 of 6, of periods of 8 elements: sizes are 2, 2, 1, 1, 1, 1, and 1, 1, 1, 0, 0, 0 of the last 3.
TEST(Blocks, OfPartsThatAreNotNeighbours) {
  const Dataset numbers = Dataset::range(19);
  for (const Dataset& all : {numbers, mapped(numbers)}) {
    const std::vector<int64_t> whole = numbers_of(all);
    const Dataset block = input::take_blocks(all, {8, 6, 1, 3, 2});
    std::vector<int64_t> expected;
    for (const size_t i : {2, 3, 5, 7, 10, 11, 13, 15, 17}) expected.push_back(whole[i]);
    EXPECT_EQ(numbers_of(block), expected);
    EXPECT_EQ(block.size(), 9);
    for (const int64_t skipped : {1, 3, 4, 8})
      EXPECT_EQ(numbers_of(block, skipped), std::vector<int64_t>(expected.begin() + skipped, expected.end()));
  }
  EXPECT_THROW(input::take_blocks(numbers, {8, 6, 2, 3, 2}), Error);
}

}  // namespace
}  // namespace plimsoll
