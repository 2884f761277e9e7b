// Statistics over ranks: those of all samples, with the same bits on every rank.
#include "kernels/moments_over_ranks.h"

#include <cmath>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ranks/communicator.h"

namespace plimsoll::ranks {
namespace {

constexpr int64_t kChannels = 3;

// A mean that is large against the deviation: sums of squares would lose all digits of the variance.
double number_of(int64_t sample, int64_t channel) {
  return 1000.0 * static_cast<double>(channel) + std::sin(static_cast<double>(sample * 7 + channel));
}

std::vector<float> moments_of(int64_t first, int64_t samples) {
  std::vector<float> moments(static_cast<size_t>(kernels::moments_length(kChannels)));
  for (int64_t c = 0; c < kChannels && samples > 0; ++c) {
    double mean = 0, squares = 0;
    for (int64_t i = first; i < first + samples; ++i) mean += number_of(i, c) / static_cast<double>(samples);
    for (int64_t i = first; i < first + samples; ++i) squares += std::pow(number_of(i, c) - mean, 2);
    moments[static_cast<size_t>(c)] = static_cast<float>(mean);
    moments[static_cast<size_t>(kChannels + c)] = static_cast<float>(squares);
  }
  moments.back() = static_cast<float>(samples);
  return moments;
}

// Ranks with different numbers of samples, the last one with none.
TEST(MomentsOverRanks, AreThoseOfAllSamples) {
  for (const int count : {1, 2, 3, 4, 5, 8}) {
    const auto samples_of = [&](int rank) { return count > 1 && rank + 1 == count ? 0 : 3 + rank % 3; };
    int64_t total = 0;
    std::vector<std::vector<float>> all;
    for (int rank = 0; rank < count; ++rank) {
      all.push_back(moments_of(total, samples_of(rank)));
      total += samples_of(rank);
    }
    const auto ends = make_replicas(count);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] {
        std::vector<float> received(all[0].size());
        EXPECT_TRUE(kernels::combine_over_ranks(*ends[static_cast<size_t>(rank)], all[static_cast<size_t>(rank)].data(),
                                                kChannels, received.data()));
      });
    for (std::thread& thread : threads) thread.join();
    const std::vector<float> expected = moments_of(0, total);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(all[0][i], expected[i], 1e-2) << count << " ranks, number " << i;
    for (const std::vector<float>& one : all) EXPECT_EQ(one, all[0]) << "the same bits on every rank";
  }
}

}  // namespace
}  // namespace plimsoll::ranks
