// Numbers that a dataset keeps, and numbers that it only borrows.
#include <array>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

Dataset made_of_locals(bool moves) {
  std::vector<float> x{1, 2, 3, 4};
  std::vector<int32_t> y{5, 6};
  Dataset made = moves ? Dataset::slices({{"x", std::move(x), {2, 2}}, {"y", std::move(y)}})
                       : Dataset::slices({{"x", x, {2, 2}}, {"y", y}});
  x.assign(1000, -1);  // what was there is gone
  y.assign(1000, -1);
  return made;
}

TEST(BorrowedNumbers, VectorsAreKeptByTheDataset) {
  for (const bool moves : {true, false}) {
    const Dataset dataset = made_of_locals(moves);
    MemoryLine line;
    std::vector<float> x;
    std::vector<int32_t> y;
    for (const ElementView& element : dataset.on(line)) {
      for (const float number : element.as<float>("x")) x.push_back(number);
      y.push_back(element.as<int32_t>("y")[0]);
    }
    EXPECT_THAT(x, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(y, ElementsAre(5, 6));
  }
}

TEST(BorrowedNumbers, KeptBytesCountOnTheLine) {
  constexpr int64_t kCount = 64 * 1024;
  std::vector<float> numbers(kCount);
  MemoryLine line(MiB);
  {
    const Dataset kept = Dataset::slices({{"x", numbers}});
    const Iteration iteration = kept.on(line);
    EXPECT_GE(line.used(), kCount * 4);
  }
  {
    const Dataset borrowed = Dataset::slices({{"x", borrow(numbers)}});
    const Iteration iteration = borrowed.on(line);
    EXPECT_LT(line.used(), kCount * 4);
  }
  MemoryLine small(kCount * 4);
  EXPECT_THROW(Dataset::slices({{"x", std::move(numbers)}}).batch(2).on(small), DoesNotFit);
  EXPECT_EQ(small.used(), 0);
}

TEST(BorrowedNumbers, WhatIsBorrowedIsReadWhereItLies) {
  std::array<float, 2> numbers{1, 2};
  const Dataset dataset = Dataset::slices({{"x", borrow(numbers)}});
  numbers[1] = 7;
  MemoryLine line;
  std::vector<float> seen;
  for (const ElementView& element : dataset.on(line)) seen.push_back(element.as<float>("x")[0]);
  EXPECT_THAT(seen, ElementsAre(1, 7));
  // Neither spans and arrays without that word, nor a vector that ends with the call.
  EXPECT_FALSE((std::is_constructible_v<NamedArray, const char*, std::span<const float>>));
  EXPECT_FALSE((std::is_constructible_v<NamedArray, const char*, std::array<float, 2>&>));
  EXPECT_TRUE((std::is_constructible_v<NamedArray, const char*, std::vector<float>>));
  EXPECT_TRUE((std::is_constructible_v<NamedArray, const char*, Borrowed<float>>));
}

}  // namespace
}  // namespace plimsoll
