// Arrays that ranks share: sums into slices have the bits of sums over ranks, and gathered slices are the whole.
#include "kernels/rank_slices.h"

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/sum_over_ranks.h"
#include "ranks/communicator.h"

namespace plimsoll::ranks {
namespace {

using kernels::RankSlice;
using kernels::slice_length;
using kernels::slice_of_rank;

void on_replicas(int count, const std::function<void(Communicator&)>& work) {
  const auto all = make_replicas(count, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (const auto& one : all) threads.emplace_back([&work, one] { work(*one); });
  for (std::thread& thread : threads) thread.join();
}

// Numbers whose sum depends on the order of additions.
std::vector<float> numbers_of_rank(int rank, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(static_cast<float>(i * 7 + static_cast<size_t>(rank) * 13)) *
                 std::pow(10.0F, static_cast<float>((static_cast<int>(i) + rank) % 7));
  return numbers;
}

TEST(RankSlices, CoverTheArrayOnce) {
  for (const int64_t count : {1, 15, 16, 17, 1024, 50'003})
    for (const int64_t ranks : {1, 2, 3, 4, 8, 64}) {
      const int64_t length = slice_length(count, ranks);
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const RankSlice own = slice_of_rank(count, length, rank);
        EXPECT_EQ(own.first, next);
        EXPECT_LE(own.count, length);
        next += own.count;
      }
      EXPECT_EQ(next, count) << ranks;
      EXPECT_LT(length - (count + ranks - 1) / ranks, 16);
    }
}

TEST(RankSlices, SumsHaveTheBitsOfSumsOverRanks) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const auto& [count, buffer] : {std::pair<int64_t, int64_t>{1, 100}, {1025, 4000}, {50'003, 7000}})
      on_replicas(ranks, [&, count = count, buffer = buffer](Communicator& c) {
        std::vector<float> whole = numbers_of_rank(c.rank(), count);
        const std::vector<float> given = whole;
        for (float& one : whole) one *= 3;
        std::vector<float> received(static_cast<size_t>(buffer));
        ASSERT_TRUE(kernels::sum_over_ranks(c, whole.data(), count, received.data(), buffer));
        const int64_t length = slice_length(count, ranks);
        std::vector<float> slice(static_cast<size_t>(length), 0.0F);
        ASSERT_TRUE(
            kernels::sum_into_slices(&c, given.data(), count, length, 3, slice.data(), received.data(), buffer));
        const RankSlice own = slice_of_rank(count, length, c.rank());
        for (int64_t i = 0; i < length; ++i)
          ASSERT_EQ(slice[static_cast<size_t>(i)], i < own.count ? whole[static_cast<size_t>(own.first + i)] : 0.0F)
              << fmt::format("{} ranks, rank {}, element {} of {}", ranks, c.rank(), i, count);
      });
}

TEST(RankSlices, AreGatheredInPlace) {
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const int64_t count : {1, 40, 1025, 50'003})
      on_replicas(ranks, [&](Communicator& c) {
        const std::vector<float> expected = numbers_of_rank(7, count);
        const int64_t length = slice_length(count, ranks);
        const RankSlice own = slice_of_rank(count, length, c.rank());
        std::vector<float> array(expected.size(), -1.0F);
        std::copy_n(expected.begin() + own.first, own.count, array.begin() + own.first);
        ASSERT_TRUE(kernels::gather_over_ranks(c, array.data(), count, length));
        EXPECT_EQ(array, expected) << ranks << " ranks";
      });
}

}  // namespace
}  // namespace plimsoll::ranks
