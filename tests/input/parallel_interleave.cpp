// interleave with threads: the order of one thread, failures in their place, and the end of threads.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/collect.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

int64_t value_of(const ElementView& element) { return element.as<int64_t>(0)[0]; }

// 100 x, 100 x + 1 ... after a time that differs between elements; fails at the values given.
Dataset slow_numbers(int64_t x, int64_t count, const std::vector<int64_t>& failures = {}) {
  return Dataset::range(100 * x, 100 * x + count)
      .map({{"value", DType::I64, {}, {}}}, [failures](const ElementView& from, const ElementSlot& to) {
        const int64_t value = value_of(from);
        std::this_thread::sleep_for(std::chrono::microseconds(value * 7919 % 50));
        if (std::ranges::find(failures, value) != failures.end())
          throw Error("element " + std::to_string(value) + " is bad", ErrorKind::BadData);
        to.as<int64_t>(0)[0] = value;
      });
}

int threads_of_process() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

TEST(ParallelInterleave, GivesTheOrderOfOneThread) {
  const InterleaveFunction make = [](const ElementView& x) { return slow_numbers(value_of(x), value_of(x) * 5 % 7); };
  for (const Dataset& input : {Dataset::range(1, 12), counting(12).skip(1)})
    for (const int64_t cycle : {1, 2, 4, 20})
      for (const int64_t block : {1, 3, 30}) {
        const Elements expected = collect(input.interleave(make, {.cycle = cycle, .block = block}));
        for (const int threads : {2, 3, 8, AUTOTUNE}) {
          SCOPED_TRACE("cycle " + std::to_string(cycle) + ", block " + std::to_string(block) + ", threads " +
                       std::to_string(threads));
          const Dataset parallel = input.interleave(make, {.cycle = cycle, .block = block, .threads = threads});
          EXPECT_EQ(collect(parallel), expected);
          EXPECT_EQ(flat(parallel.batch(4).prefetch(1)), flat(expected));
        }
      }
}

TEST(ParallelInterleave, ReadsSeveralDatasetsAtOnce) {
  std::atomic<int> inside = 0, most = 0;
  const InterleaveFunction make = [&](const ElementView& x) {
    return Dataset::range(value_of(x), value_of(x) + 8)
        .map({{"value", DType::I64, {}, {}}}, [&](const ElementView& from, const ElementSlot& to) {
          const int now = ++inside;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          to.as<int64_t>(0)[0] = value_of(from);
          --inside;
        });
  };
  EXPECT_EQ(collect(Dataset::range(8).interleave(make, {.cycle = 4, .threads = 3})).size(), 64U);
  EXPECT_GT(most, 1);
  EXPECT_LE(most, 3);
}

// What comes, element by element: its number, or the words of its failure.
std::vector<std::string> events(const Dataset& dataset) {
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  std::vector<std::string> all;
  while (true) {
    try {
      const ElementView* const element = iteration.next();
      if (element == nullptr) return all;
      all.push_back(std::to_string(value_of(*element)));
    } catch (const Error& error) {
      all.emplace_back(error.what());
    }
  }
}

TEST(ParallelInterleave, FailuresStandWhereTheyStandWithOneThread) {
  const Dataset like = slow_numbers(0, 1);
  const InterleaveFunction make = [](const ElementView& x) {
    if (value_of(x) % 3 == 2) throw Error("no dataset of " + std::to_string(value_of(x)), ErrorKind::BadData);
    return slow_numbers(value_of(x), 5, {100 * value_of(x) + 2, 100 * value_of(x) + 4});
  };
  for (const int64_t cycle : {2, 3, 5}) {
    const auto interleaved = [&](int threads) {
      return Dataset::range(12).interleave(make, {.cycle = cycle, .block = 2, .like = &like, .threads = threads});
    };
    const std::vector<std::string> expected = events(interleaved(1));
    EXPECT_EQ(expected.size(), 4U + 8 * 5);
    for (const int threads : {2, 4}) EXPECT_EQ(events(interleaved(threads)), expected) << "cycle " << cycle;
  }
}

TEST(ParallelInterleave, ThreadsEndWhenItIsDroppedInTheMiddle) {
  std::thread([] {}).join();  // at the first thread a thread sanitizer starts one of its own
  const int before = threads_of_process();
  for (int i = 0; i < 10; ++i) {
    MemoryLine line;
    const Dataset dataset = Dataset::range(100).interleave(
        [](const ElementView& x) { return slow_numbers(value_of(x), 50); }, {.cycle = 4, .threads = 4});
    Iteration iteration = dataset.on(line);
    for (int taken = 0; taken < i; ++taken) ASSERT_NE(iteration.next(), nullptr);
    if (i > 0) {
      EXPECT_EQ(threads_of_process(), before + 3);
    }
    EXPECT_EQ(iteration.bytes(), dataset.bytes());
  }
  EXPECT_EQ(threads_of_process(), before);
}

TEST(ParallelInterleave, AutotuneAddsThreadsWhereThereIsRoom) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  const auto make = [](const ElementView& x) {
    return Dataset::range(100 * value_of(x), 100 * value_of(x) + 60)
        .map({{"value", DType::I64, {}, {}}}, [](const ElementView& from, const ElementSlot& to) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          to.as<int64_t>(0)[0] = value_of(from);
        });
  };
  const Dataset dataset = Dataset::range(4).interleave(make, {.cycle = 4, .threads = AUTOTUNE});
  const Elements expected = collect(Dataset::range(4).interleave(make, {.cycle = 4}));
  MemoryLine line, tight(dataset.bytes());
  Iteration wide = dataset.on(line);
  EXPECT_EQ(wide.stages()[1].threads, 0);
  EXPECT_EQ(collect(wide), expected);
  EXPECT_GT(wide.stages()[1].threads, 0);
  Iteration in_least_memory = dataset.on(tight);
  EXPECT_EQ(collect(in_least_memory), expected);
  EXPECT_EQ(in_least_memory.stages()[1].threads, 0);
}

TEST(ParallelInterleave, RefusesThreadsThatMakeNoSense) {
  const InterleaveFunction make = [](const ElementView&) { return Dataset::range(1); };
  EXPECT_THAT([&] { Dataset::range(3).interleave(make, {.cycle = int64_t{1} << 60}); },
              ThrowsMessage<Error>(HasSubstr("a cycle of at most 65536")));
  EXPECT_EQ(collect(Dataset::range(3).interleave(make, {.cycle = 2, .block = int64_t{1} << 62, .threads = 2})).size(),
            3U);
  for (const int threads : {0, -2})
    EXPECT_THAT([&] { Dataset::range(3).interleave(make, {.threads = threads}); },
                ThrowsMessage<Error>(HasSubstr("at least 1, or AUTOTUNE")));
}

}  // namespace
}  // namespace plimsoll::testing
