// Stopping anywhere and going on gives the same remaining elements, for any number of threads.
#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/collect.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Chain {
  const char* name;
  std::function<Dataset(int threads)> make;
};

class DatasetResume : public ::testing::TestWithParam<Chain> {};

TEST_P(DatasetResume, AtEveryPositionWithAnyThreads) {
  // Two epochs, so that what depends on the epoch is seen too.
  MemoryLine line;
  Iteration whole = GetParam().make(1).on(line);
  for (const uint64_t epoch : {0, 1}) {
    whole.start_epoch(epoch);
    const Elements all = collect(whole, 40);
    ASSERT_GT(all.size(), 1u);
    for (const int threads : {1, 2, 4}) {
      Iteration stopped = GetParam().make(threads).on(line);
      Iteration resumed = GetParam().make(threads).on(line);
      stopped.start_epoch(epoch);
      for (size_t position = 0; position < all.size(); ++position) {
        SCOPED_TRACE("position " + std::to_string(position) + ", threads " + std::to_string(threads));
        const DatasetState state = stopped.state();
        EXPECT_EQ(state.position, static_cast<int64_t>(position));
        // From anywhere, also from the middle of another epoch.
        if (position % 3 == 0) resumed.next();
        resumed.seek(state);
        EXPECT_EQ(resumed.state(), state);
        const Elements rest = collect(resumed, static_cast<int64_t>(all.size() - position));
        ASSERT_EQ(rest, Elements(all.begin() + static_cast<std::ptrdiff_t>(position), all.end()));
        const ElementView* const next = stopped.next();
        ASSERT_NE(next, nullptr);
        ASSERT_EQ(numbers(*next), all[position]);
      }
    }
  }
}

Dataset pairs() {
  return counting(40).map({{"twice", DType::I64, {2}, {2}}}, [](const ElementView& from, const ElementSlot& to) {
    std::ranges::fill(to.as<int64_t>(0), from.as<int64_t>(0)[0]);
  });
}

const Chain kChains[] = {
    {"Range", [](int) { return Dataset::range(17); }},
    {"Generator", [](int) { return counting(17); }},
    {"Shuffle", [](int) { return Dataset::range(17).shuffle(); }},
    {"IndexWindow", [](int) { return Dataset::range(17).shuffle(5); }},
    {"ElementWindow", [](int) { return counting(17).shuffle(5); }},
    {"Map", [](int threads) { return times_ten(Dataset::range(17), threads); }},
    {"MapOfGenerator", [](int threads) { return times_ten(counting(17), threads); }},
    {"Batch", [](int threads) { return times_ten(counting(17), threads).batch(3); }},
    {"BatchDropped", [](int threads) { return times_ten(Dataset::range(17), threads).batch(3, true); }},
    {"Repeat", [](int) { return Dataset::range(5).shuffle().repeat(4); }},
    {"RepeatForEver", [](int) { return counting(5).shuffle(3).repeat().batch(2); }},
    {"TakeSkipShard", [](int) { return counting(40).skip(3).shard(3, 1).take(9); }},
    {"Prefetch", [](int threads) { return counting(17).prefetch(threads); }},
    {"PrefetchInTheMiddle", [](int threads) { return times_ten(Dataset::range(17).prefetch(2), threads).batch(2); }},
    {"Filter",
     [](int threads) {
       return times_ten(counting(30), threads).filter([](const ElementView& element) {
         return element.as<int64_t>(0)[0] % 30 != 0;
       });
     }},
    {"SkipCorrupt",
     [](int threads) {
       return Dataset::range(30)
           .map(
               {{"value", DType::I64, {}, {}}},
               [](const ElementView& from, const ElementSlot& to) {
                 if (from.as<int64_t>(0)[0] % 4 == 1) throw Error("bad", ErrorKind::BadData);
                 to.as<int64_t>(0)[0] = from.as<int64_t>(0)[0];
               },
               threads)
           .skip_corrupt(9)
           .batch(2);
     }},
    {"PaddedBatch", [](int) { return counting(17).batch(3).padded_batch(2, {.shapes = {{4}}}); }},
    {"Unbatch", [](int) { return counting(17).batch(3).unbatch(); }},
    {"UnbatchOfOneSize", [](int) { return Dataset::range(18).batch(3).unbatch(); }},
    {"Window", [](int) { return counting(17).window(3, {.shift = 2, .stride = 2}); }},
    {"IndexedWindow", [](int) { return Dataset::range(17).window(2, {.shift = 3}); }},
    {"Zip",
     [](int threads) {
       return Dataset::zip({times_ten(counting(17), threads), pairs()}).batch(2);
     }},
    {"Concatenate", [](int threads) { return counting(7).concatenate(times_ten(Dataset::range(8), threads)); }},
    {"Enumerate", [](int) { return counting(17).shuffle(4).enumerate(); }},
    {"Interleave",
     [](int) {
       return Dataset::range(5).interleave(
           [](const ElementView& element) { return Dataset::range(element.as<int64_t>(0)[0] * 2).shuffle(); },
           {.cycle = 3, .block = 2});
     }},
    {"ParallelInterleave",
     [](int threads) {
       return Dataset::range(5).interleave(
           [](const ElementView& element) { return counting(element.as<int64_t>(0)[0] * 2); },
           {.cycle = 3, .block = 2, .threads = threads});
     }},
    {"FlatMap",
     [](int) {
       return counting(5).flat_map(
           [](const ElementView& element) { return counting(element.as<int64_t>(0)[0]).repeat(2); });
     }},
    {"Cache", [](int threads) { return times_ten(Dataset::range(17).shuffle(), threads).cache().shuffle(); }},
    {"CacheOfAStream", [](int threads) { return times_ten(counting(9).take(9), threads).cache().batch(2); }},
    {"Training",
     [](int threads) { return times_ten(Dataset::range(23), threads).shuffle().repeat(2).batch(4).prefetch(threads); }},
};
INSTANTIATE_TEST_SUITE_P(Chains, DatasetResume, ::testing::ValuesIn(kChains),
                         [](const auto& chain) { return chain.param.name; });

TEST(DatasetState, OfOtherNumbersInMemoryIsRefused) {
  const auto state_of = [](const std::vector<float>& numbers) {
    MemoryLine line;
    return Dataset::slices({{"x", numbers}}).batch(2).on(line).state();
  };
  EXPECT_EQ(state_of({1, 2, 3, 4}), state_of({1, 2, 3, 4}));
  EXPECT_NE(state_of({1, 2, 3, 4}), state_of({1, 2, 3, 5}));
}

TEST(DatasetState, OfAnotherDatasetOrPlaceIsRefused) {
  MemoryLine line;
  Iteration iteration = Dataset::range(5).on(line);
  Iteration other = Dataset::range(6).on(line);
  EXPECT_THAT([&] { iteration.seek(other.state()); }, ThrowsMessage<Error>(HasSubstr("another dataset")));
  DatasetState state = iteration.state();
  state.position = 6;
  EXPECT_THAT([&] { iteration.seek(state); }, ThrowsMessage<Error>(HasSubstr("it has fewer")));
  // That a stream is shorter shows when it is read.
  Iteration stream = counting(5).on(line);
  state = stream.state();
  state.position = 6;
  EXPECT_THAT([&] { stream.seek(state); }, ThrowsMessage<Error>(HasSubstr("it has fewer")));
}

}  // namespace
}  // namespace plimsoll::testing
