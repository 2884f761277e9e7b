// Ranks that are threads: messages, what they gather, sums in a fixed tree, deadlines and failures.
#include "ranks/communicator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/sum_over_ranks.h"

namespace plimsoll::ranks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every rank on a thread of its own.
void on_all(int count, const std::function<void(Communicator&)>& work,
            std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const auto all = make_replicas(count, timeout);
  std::vector<std::thread> threads;
  for (const auto& one : all) threads.emplace_back([&work, one] { work(*one); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Replicas, GatherInTheOrderOfRanks) {
  for (const int count : {1, 2, 3, 4, 5, 8})
    on_all(count, [&](Communicator& c) {
      const int64_t mine = 100 + c.rank();
      std::vector<int64_t> all(static_cast<size_t>(count)), expected(static_cast<size_t>(count));
      std::iota(expected.begin(), expected.end(), 100);
      c.gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
      EXPECT_EQ(all, expected);
    });
}

TEST(Replicas, GatherTextsOfAnyLength) {
  on_all(3, [](Communicator& c) {
    const std::string mine(static_cast<size_t>(c.rank()), 'x');
    EXPECT_THAT(c.gather_texts(mine), ElementsAre("", "x", "xx"));
    c.meet();
  });
}

// Numbers whose sum depends on the order of additions.
std::vector<float> numbers_of(int leaf, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(static_cast<float>(i * 7 + static_cast<size_t>(leaf) * 13)) *
                 std::pow(10.0F, static_cast<float>((static_cast<int>(i) + leaf) % 7));
  return numbers;
}

std::vector<float> tree_sum(int first, int leaves, int64_t count) {
  if (leaves == 1) return numbers_of(first, count);
  std::vector<float> low = tree_sum(first, leaves / 2, count);
  const std::vector<float> high = tree_sum(first + leaves / 2, leaves / 2, count);
  for (size_t i = 0; i < low.size(); ++i) low[i] += high[i];
  return low;
}

TEST(SumOverRanks, IsABalancedTreeOnEveryRankForAllSizes) {
  for (const int ranks : {1, 2, 4, 8})
    for (const auto& [count, received] :
         {std::pair<int64_t, int64_t>{1, 1}, {1000, 1000}, {1025, 2000}, {50'003, 7000}}) {
      const std::vector<float> expected = tree_sum(0, ranks, count);
      on_all(ranks, [&](Communicator& c) {
        std::vector<float> mine = numbers_of(c.rank(), count);
        std::vector<float> buffer(static_cast<size_t>(received));
        ASSERT_TRUE(kernels::sum_over_ranks(c, mine.data(), count, buffer.data(), received));
        EXPECT_EQ(mine, expected) << ranks << " ranks, " << count << " numbers";
      });
    }
}

TEST(SumOverRanks, WorksForAnyNumberOfRanks) {
  for (const int ranks : {3, 5, 6, 7}) {
    std::vector<std::vector<float>> results(static_cast<size_t>(ranks));
    on_all(ranks, [&](Communicator& c) {
      std::vector<float> mine(5000, static_cast<float>(c.rank() + 1)), buffer(3000);
      ASSERT_TRUE(kernels::sum_over_ranks(c, mine.data(), std::ssize(mine), buffer.data(), 3000));
      results[static_cast<size_t>(c.rank())] = mine;
    });
    const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
    for (const std::vector<float>& result : results)
      EXPECT_TRUE(std::ranges::all_of(result, [&](float x) { return x == sum; })) << ranks << " ranks";
  }
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Replicas, ARankThatDoesNotAnswerIsNamed) {
  on_all(
      2,
      [](Communicator& c) {
        if (c.rank() == 1) return;
        EXPECT_EQ(message_of([&] { c.meet(); }), "rank 1 has not answered rank 0 for 0.05 s");
        float number = 1, buffer = 0;
        EXPECT_FALSE(kernels::sum_over_ranks(c, &number, 1, &buffer, 1)) << "later exchanges fail at once";
      },
      std::chrono::milliseconds(50));
}

TEST(Replicas, TheErrorOfOneRankIsThatOfAll) {
  on_all(4, [](Communicator& c) {
    if (c.rank() == 2) return c.abort("the disk is full", static_cast<int>(ErrorKind::DiskFull));
    try {
      c.meet();
      FAIL() << "rank " << c.rank() << " went on";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "rank 2: the disk is full");
      EXPECT_EQ(e.kind(), ErrorKind::DiskFull);
    }
  });
}

TEST(Replicas, MessagesOfAnotherSizeAreRefused) {
  on_all(
      2,
      [](Communicator& c) {
        float numbers[4] = {}, more[4] = {};
        const Bytes bytes = c.rank() == 0 ? 16 : 12;
        if (c.exchange(1 - c.rank(), numbers, bytes, more, bytes)) return;
        EXPECT_THAT(message_of([&] { c.expect_good(); }), HasSubstr(c.rank() == 0 ? "12 bytes" : "rank"));
      },
      std::chrono::milliseconds(200));
}

TEST(Alone, HasNobodyToTalkTo) {
  const auto alone = make_alone();
  EXPECT_EQ(alone->size(), 1);
  EXPECT_THAT(alone->gather_texts("me"), ElementsAre("me"));
  EXPECT_FALSE(alone->exchange(1, nullptr, 0, nullptr, 0));
  EXPECT_EQ(message_of([&] { alone->expect_good(); }), "there is no rank 1: this process trains alone");
  EXPECT_EQ(message_of([] { make_replicas(0); }), "0 replicas can't train; give 1 or more");
}

}  // namespace
}  // namespace plimsoll::ranks
