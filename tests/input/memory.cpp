// A fast producer and a slow consumer: what a stage holds never grows.
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include "input/collect.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

constexpr int64_t kElements = 100'000;

struct Stage {
  const char* name;
  std::function<Dataset(const Dataset& endless)> make;
};

class DatasetMemory : public ::testing::TestWithParam<Stage> {};

// Numbers without end, faster than anybody takes them.
Dataset endless() {
  return Dataset::generator({{"value", DType::I64, {64}, {}}}, [] {
    return [next = int64_t{0}](const ElementSlot& to) mutable {
      std::ranges::fill(to.as<int64_t>(0), next++);
      return true;
    };
  });
}

TEST_P(DatasetMemory, IsFlatForASlowConsumer) {
  const Dataset dataset = GetParam().make(endless());
  MemoryLine line(dataset.bytes());
  Iteration iteration = dataset.on(line);
  Bytes before = 0;
  for (int64_t taken = 0; taken < kElements; ++taken) {
    const ElementView* const element = iteration.next();
    ASSERT_NE(element, nullptr);
    if (taken % 5000 != 0) continue;
    // Long enough for the producer to run into its limit.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_LE(line.used(), dataset.bytes());
    if (taken == kElements / 10) before = resident_bytes();
  }
  // A MiB is less than a tenth of what the elements since then take. Sanitizers keep what was freed.
  if (!kSanitized) {
    EXPECT_LE(resident_bytes() - before, MiB);
  }
  EXPECT_EQ(iteration.bytes(), dataset.bytes());
}

Dataset repeated(const Dataset& dataset, int threads) {
  return dataset.map(
      dataset.element(),
      [](const ElementView& from, const ElementSlot& to) {
        std::ranges::copy(from.as<int64_t>(0), to.as<int64_t>(0).begin());
      },
      threads);
}

const std::vector<int64_t> kRows = {1, 2, 3, 4, 5, 6, 7};

const Stage kStages[] = {
    {"Map", [](const Dataset& input) { return repeated(input, 1); }},
    {"ParallelMap", [](const Dataset& input) { return repeated(input, 3); }},
    {"Filter",
     [](const Dataset& input) {
       return input.filter([](const ElementView& element) { return element.as<int64_t>(0)[0] % 2 == 0; });
     }},
    {"SkipCorrupt", [](const Dataset& input) { return input.skip_corrupt(5); }},
    {"Shuffle", [](const Dataset& input) { return input.shuffle(100); }},
    {"Batch", [](const Dataset& input) { return input.batch(2); }},
    {"PaddedBatch", [](const Dataset& input) { return input.padded_batch(2, {.shapes = {{70}}}); }},
    {"Unbatch", [](const Dataset& input) { return input.unbatch(); }},
    {"Window", [](const Dataset& input) { return input.window(5, {.shift = 1, .stride = 2}); }},
    {"Zip",
     [](const Dataset& input) {
       return Dataset::zip({input, Dataset::slices({{"row", kRows}}).repeat()}).prefetch(3);
     }},
    {"Concatenate", [](const Dataset& input) { return input.take(50'000).concatenate(input); }},
    {"Enumerate", [](const Dataset& input) { return input.enumerate(); }},
    {"FlatMap",
     [](const Dataset& input) {
       return input.flat_map([](const ElementView& element) { return Dataset::range(element.as<int64_t>(0)[0] % 30); });
     }},
    {"Interleave",
     [](const Dataset& input) {
       return input.interleave([](const ElementView&) { return endless().take(50).prefetch(2); }, {.cycle = 3});
     }},
    {"ParallelInterleave",
     [](const Dataset& input) {
       return input.interleave([](const ElementView&) { return endless().take(50); }, {.cycle = 3, .threads = 3});
     }},
    {"Repeat", [](const Dataset& input) { return input.take(100).repeat(); }},
    {"Cache", [](const Dataset& input) { return input.take(100).cache().repeat(); }},
    {"TakeSkipShard", [](const Dataset& input) { return input.skip(10).shard(2, 1).take(kElements); }},
    {"Prefetch", [](const Dataset& input) { return input.prefetch(4); }},
    {"Training", [](const Dataset& input) { return repeated(input, 2).shuffle(50).batch(2).prefetch(2); }},
};
INSTANTIATE_TEST_SUITE_P(Stages, DatasetMemory, ::testing::ValuesIn(kStages),
                         [](const auto& stage) { return stage.param.name; });

}  // namespace
}  // namespace plimsoll::testing
