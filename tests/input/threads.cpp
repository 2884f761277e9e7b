// map and prefetch: order, failures, and the end of threads.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/collect.h"

namespace plimsoll::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const ElementSpec kNumber = {{"value", DType::I64, {}, {}}};

// Fails at the given values, after a time that differs between elements.
Dataset failing_map(const Dataset& dataset, int threads, std::vector<int64_t> failures) {
  return dataset.map(
      kNumber,
      [failures](const ElementView& from, const ElementSlot& to) {
        const int64_t value = from.as<int64_t>(0)[0];
        std::this_thread::sleep_for(std::chrono::microseconds(value * 7919 % 50));
        if (std::ranges::find(failures, value) != failures.end())
          throw Error("element " + std::to_string(value) + " is bad", ErrorKind::BadData);
        to.as<int64_t>(0)[0] = value;
      },
      threads);
}

std::vector<int64_t> counted(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int threads_of_process() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

TEST(DatasetMap, KeepsTheOrderForAnyNumberOfThreads) {
  for (const Dataset& dataset : {Dataset::range(200), counting(200)})
    for (const int threads : {1, 2, 4, AUTOTUNE}) {
      EXPECT_EQ(flat(failing_map(dataset, threads, {})), counted(200));
      EXPECT_EQ(flat(failing_map(dataset, threads, {}).batch(32)), counted(200));
      EXPECT_EQ(flat(failing_map(dataset, threads, {}).batch(7).prefetch(2)), counted(200));
      EXPECT_EQ(flat(failing_map(dataset, threads, {}).prefetch(5)), counted(200));
    }
}

TEST(DatasetMap, RunsInSeveralThreads) {
  std::atomic<int> inside = 0, most = 0;
  const Dataset dataset = Dataset::range(64).map(
      kNumber,
      [&](const ElementView& from, const ElementSlot& to) {
        const int now = ++inside;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        to.as<int64_t>(0)[0] = from.as<int64_t>(0)[0];
        --inside;
      },
      4);
  EXPECT_EQ(flat(dataset.batch(16)), counted(64));
  EXPECT_GT(most, 1);
  EXPECT_LE(most, 4);
}

TEST(DatasetMap, ChangesTypeAndShape) {
  const Dataset dataset =
      Dataset::range(4).map({{"word", DType::U8, {-1}, {8}}, {"half", DType::F32, {}, {}}},
                            [](const ElementView& from, const ElementSlot& to) {
                              const int64_t value = from.as<int64_t>("value")[0];
                              to.set_dims(0, {value});
                              std::ranges::fill(to.as<uint8_t>("word"), static_cast<uint8_t>(value));
                              to.as<float>("half")[0] = static_cast<float>(value) / 2;
                            });
  MemoryLine line;
  Iteration iteration = dataset.skip(3).on(line);
  const ElementView* const last = iteration.next();
  ASSERT_NE(last, nullptr);
  EXPECT_THAT(last->as<uint8_t>("word"), ElementsAre(3, 3, 3));
  EXPECT_THAT(last->as<float>("half"), ElementsAre(1.5F));
}

TEST(DatasetMap, AFailureComesAfterTheElementsBeforeItAndLosesNoneBehindIt) {
  for (const Dataset& dataset : {Dataset::range(60), counting(60)})
    for (const int threads : {1, 2, 4})
      for (const bool prefetched : {false, true}) {
        Dataset failing = failing_map(dataset, threads, {0, 17, 18, 40, 59});
        if (prefetched) failing = failing.prefetch(3);
        MemoryLine line;
        Iteration iteration = failing.on(line);
        std::vector<int64_t> good, bad;
        while (good.size() + bad.size() < 60) {
          try {
            const ElementView* const element = iteration.next();
            if (element == nullptr) break;
            good.push_back(element->as<int64_t>(0)[0]);
          } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr("is bad"));
            // The error stands where the element would have been.
            bad.push_back(static_cast<int64_t>(good.size() + bad.size()));
          }
        }
        EXPECT_THAT(bad, ElementsAre(0, 17, 18, 40, 59));
        EXPECT_EQ(good.size(), 55u);
        EXPECT_EQ(iteration.next(), nullptr);
      }
}

TEST(DatasetMap, AFailureStopsABatchAndNotTheThread) {
  MemoryLine line;
  Iteration iteration = failing_map(Dataset::range(12), 2, {5}).batch(4).prefetch(2).on(line);
  ASSERT_NE(iteration.next(), nullptr);
  EXPECT_THAT([&] { iteration.next(); }, ThrowsMessage<Error>("element 5 is bad"));
  const ElementView* const after = iteration.next();
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(numbers(*after)[0], 6);
}

TEST(DatasetPrefetch, ThreadsEndWhenAnIterationIsDroppedInTheMiddle) {
  std::thread([] {}).join();  // at the first thread a thread sanitizer starts one of its own
  const int before = threads_of_process();
  for (int i = 0; i < 20; ++i) {
    MemoryLine line;
    Iteration iteration = failing_map(counting(10'000), 3, {}).prefetch(2).batch(4).prefetch(2).on(line);
    for (int taken = 0; taken < i; ++taken) ASSERT_NE(iteration.next(), nullptr);
    if (i > 0) {
      EXPECT_GT(threads_of_process(), before);
    }
  }
  EXPECT_EQ(threads_of_process(), before);
}

TEST(DatasetPrefetch, FillsNoMoreThanItsSlots) {
  std::atomic<int64_t> made = 0;
  const Dataset dataset = Dataset::generator(kNumber, [&] {
    return [&](const ElementSlot& to) {
      to.as<int64_t>(0)[0] = made++;
      return true;
    };
  });
  MemoryLine line;
  Iteration iteration = dataset.prefetch(3).on(line);
  for (int64_t taken = 1; taken < 20; ++taken) {
    ASSERT_NE(iteration.next(), nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_LE(made, taken + 3);
  }
  EXPECT_EQ(made, 19 + 3);
}

TEST(DatasetPrefetch, AnElementStaysInPlaceUntilTheNextCall) {
  MemoryLine line;
  Iteration iteration = Dataset::range(100).prefetch(2).on(line);
  for (int64_t i = 0; i < 100; ++i) {
    const ElementView* const element = iteration.next();
    ASSERT_NE(element, nullptr);
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(element->as<int64_t>(0)[0], i);
  }
}

TEST(DatasetAutotune, GivesAMapMoreThreadsWhileTheConsumerWaits) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  const Dataset dataset = Dataset::range(400)
                              .map(
                                  kNumber,
                                  [](const ElementView& from, const ElementSlot& to) {
                                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                    to.as<int64_t>(0)[0] = from.as<int64_t>(0)[0];
                                  },
                                  AUTOTUNE)
                              .batch(10)
                              .prefetch(AUTOTUNE);
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  EXPECT_EQ(iteration.stages()[1].threads, 0);
  EXPECT_EQ(flat(collect(iteration)), counted(400));
  EXPECT_GT(iteration.stages()[1].threads, 0);
  EXPECT_GT(iteration.bytes(), dataset.bytes());

  MemoryLine tight(dataset.bytes());
  Iteration in_least_memory = dataset.on(tight);
  EXPECT_EQ(flat(collect(in_least_memory)), counted(400));
  EXPECT_EQ(in_least_memory.bytes(), dataset.bytes());
}

}  // namespace
}  // namespace plimsoll::testing
