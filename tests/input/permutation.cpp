#include "input/stages/permutation.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::input {
namespace {

std::vector<int64_t> order(int64_t n, uint64_t seed, int64_t epoch) {
  const Permutation permutation(n, seed, epoch);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(permutation(i));
  return all;
}

TEST(Permutation, MeetsEachIndexOnce) {
  std::vector<int64_t> sizes{1000, 1023, 1024, 1025, 60000, 65536, 65537, 1'000'003};
  for (int64_t n = 1; n < 70; ++n) sizes.push_back(n);
  for (const int64_t n : sizes) {
    std::vector<bool> met(n);
    for (const int64_t index : order(n, 42, 3)) {
      ASSERT_GE(index, 0);
      ASSERT_LT(index, n);
      ASSERT_FALSE(met[index]) << "n " << n << " index " << index;
      met[index] = true;
    }
  }
}

TEST(Permutation, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(order(1000, 1, 1), order(1000, 1, 1));
  EXPECT_NE(order(1000, 1, 1), order(1000, 1, 2));
  EXPECT_NE(order(1000, 1, 1), order(1000, 2, 1));
  EXPECT_NE(order(1000, 1, 0), order(1000, 0, 1));
}

// A saved position must mean the same samples in every later version.
TEST(Permutation, StaysAsItWas) { EXPECT_EQ(order(8, 1, 2), (std::vector<int64_t>{6, 2, 0, 3, 7, 5, 4, 1})); }

TEST(Permutation, FillsWithThoseOfOneByOne) {
  for (const int64_t n : {1, 7, 100, 128, 129, 1000}) {
    const std::vector<int64_t> all = order(n, 4, 2);
    for (const int64_t first : {int64_t{0}, n / 3, n - 1}) {
      std::vector<int64_t> filled(static_cast<size_t>(n - first));
      Permutation(n, 4, 2).fill(first, filled);
      EXPECT_EQ(filled, std::vector<int64_t>(all.begin() + first, all.end()));
    }
  }
}

TEST(Permutation, WorksForHugeSizes) {
  const int64_t n = (int64_t(1) << 62) - 57;
  const Permutation permutation(n, 5, 5);
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(permutation(i), 0);
    EXPECT_LT(permutation(n - 1 - i), n);
  }
}

double chi_square(const std::vector<int64_t>& counts, double expected) {
  double sum = 0;
  for (const int64_t count : counts) sum += (double(count) - expected) * (double(count) - expected) / expected;
  return sum;
}

// Over many epochs each index lands in each place equally often. With d degrees of freedom chi-square has mean d and
// deviation sqrt(2 d); seven deviations leave room for the seeds of this test only.
TEST(Permutation, IsUniformOverEpochs) {
  constexpr int64_t kEpochs = 20000;
  for (const int64_t n : {2, 3, 5, 10, 33, 100}) {
    std::vector<int64_t> counts(n * n);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const Permutation permutation(n, 7, epoch);
      for (int64_t i = 0; i < n; ++i) ++counts[i * n + permutation(i)];
    }
    const double freedom = double(n - 1) * double(n - 1);
    EXPECT_LT(chi_square(counts, double(kEpochs) / double(n)), freedom + 7 * std::sqrt(2 * freedom)) << n;
  }
}

// Inside one epoch the first batch is spread over the whole file, and neighbours do not stay together.
TEST(Permutation, SpreadsWithinAnEpoch) {
  constexpr int64_t n = 60000, kBuckets = 60;
  std::vector<int64_t> first(kBuckets), steps(kBuckets);
  const auto all = order(n, 11, 0);
  for (int64_t i = 0; i < 6000; ++i) ++first[all[i] * kBuckets / n];
  for (int64_t i = 0; i + 1 < n; ++i) ++steps[((all[i + 1] - all[i] + n) % n) * kBuckets / n];
  const double limit = kBuckets + 7 * std::sqrt(2.0 * kBuckets);
  EXPECT_LT(chi_square(first, 6000.0 / kBuckets), limit);
  EXPECT_LT(chi_square(steps, double(n) / kBuckets), limit);
}

}  // namespace
}  // namespace plimsoll::input
