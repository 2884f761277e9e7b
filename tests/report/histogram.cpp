#include "report/histogram.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::report {
namespace {

TEST(Histogram, CountsNumbersInBucketsOfEqualWidth) {
  std::vector<float> numbers;
  for (int i = 0; i <= 300; ++i) numbers.push_back(static_cast<float>(i));
  const Histogram histogram = make_histogram(numbers);
  EXPECT_EQ(histogram.smallest(), 0);
  EXPECT_EQ(histogram.largest(), 300);
  EXPECT_EQ(histogram.numbers(), 301);
  EXPECT_EQ(histogram.sum(), 45150);
  EXPECT_EQ(histogram.sum_of_squares(), 9045050);
  EXPECT_EQ(histogram.bucket(0), 10);
  EXPECT_EQ(histogram.bucket(17), 10);
  EXPECT_EQ(histogram.bucket(29), 11);  // the largest number belongs to the last bucket
  EXPECT_EQ(histogram.limit(0), 10);
  EXPECT_EQ(histogram.limit(29), 300);
}

TEST(Histogram, OfPiecesIsThatOfTheWhole) {
  const std::vector<float> numbers{-1, 4, 2.5, 0, 3, -0.5};
  const std::span<const float> all(numbers);
  Histogram pieces;
  for (size_t i = 0; i < 6; i += 2) pieces.widen(all.subspan(i, 2));
  for (size_t i = 0; i < 6; i += 3) pieces.count(all.subspan(i, 3));
  const Histogram whole = make_histogram(numbers);
  EXPECT_EQ(pieces.sum(), whole.sum());
  for (size_t i = 0; i < Histogram::kBuckets; ++i) EXPECT_EQ(pieces.bucket(i), whole.bucket(i)) << i;
}

TEST(Histogram, LeavesOutWhatIsNotFiniteAndTakesOneValue) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Histogram histogram =
      make_histogram(std::vector<float>{2, infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 2});
  EXPECT_EQ(histogram.numbers(), 2);
  EXPECT_EQ(histogram.smallest(), 2);
  EXPECT_EQ(histogram.bucket(0), 2);
  EXPECT_EQ(histogram.limit(0), 2);
  const Histogram empty = make_histogram({});
  EXPECT_EQ(empty.numbers(), 0);
  EXPECT_EQ(empty.limit(29), 0);
  // Sums of the largest floats stay finite.
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(make_histogram(std::vector<float>{-huge, huge}).bucket(29), 1);
}

}  // namespace
}  // namespace plimsoll::report
