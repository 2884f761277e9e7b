#include <algorithm>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/collect.h"
#include "input/files.h"

namespace plimsoll::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Dataset named(const Dataset& dataset, const std::string& name) {
  return dataset.map({{name, DType::I64, {}, {}}}, [](const ElementView& from, const ElementSlot& to) {
    to.as<int64_t>(0)[0] = from.as<int64_t>(0)[0];
  });
}

// Fails at multiples of ten.
Dataset corrupt(const Dataset& dataset, int threads = 1) {
  return dataset.map(
      dataset.element(),
      [](const ElementView& from, const ElementSlot& to) {
        const int64_t value = from.as<int64_t>(0)[0];
        if (value % 10 == 0) throw Error("multiple of ten: " + std::to_string(value), ErrorKind::BadData);
        to.as<int64_t>(0)[0] = value;
      },
      threads);
}

TEST(DatasetFilter, KeepsWhatPasses) {
  const Predicate is_even = [](const ElementView& element) { return element.as<int64_t>(0)[0] % 2 == 0; };
  for (const Dataset& dataset : {Dataset::range(10), counting(10), times_ten(Dataset::range(10), 3)}) {
    std::vector<int64_t> expected = flat(dataset);
    std::erase_if(expected, [](int64_t value) { return value % 2 != 0; });
    EXPECT_EQ(flat(dataset.filter(is_even)), expected);
    EXPECT_EQ(flat(dataset.filter(is_even).batch(4)), expected);
  }
  EXPECT_THAT(flat(Dataset::range(10).filter([](const ElementView&) { return false; })), ElementsAre());
  EXPECT_EQ(Dataset::range(10).filter(is_even).size(), Dataset::kUnknown);
}

TEST(DatasetFilter, AFailingPredicateLosesNoOtherElement) {
  MemoryLine line;
  Iteration iteration = Dataset::range(8)
                            .filter([](const ElementView& element) {
                              if (element.as<int64_t>(0)[0] == 2) throw Error("two");
                              return true;
                            })
                            .on(line);
  std::vector<int64_t> seen;
  int failures = 0;
  while (seen.size() < 7) {
    try {
      seen.push_back(numbers(*iteration.next())[0]);
    } catch (const Error&) {
      ++failures;
    }
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 3, 4, 5, 6, 7));
  EXPECT_EQ(failures, 1);
}

TEST(DatasetSkipCorrupt, LeavesOutAndCountsSoManyBadElements) {
  for (const Dataset& dataset : {Dataset::range(25), counting(25)})
    for (const int threads : {1, 3}) {
      MemoryLine line;
      Iteration iteration = corrupt(dataset, threads).skip_corrupt(3).batch(5).on(line);
      const std::vector<int64_t> seen = flat(collect(iteration));
      EXPECT_EQ(seen.size(), 22u);
      EXPECT_TRUE(std::ranges::is_sorted(seen));
      const std::vector<StageReport> stages = iteration.stages();
      EXPECT_EQ(stages[2].name, "skip_corrupt(3)");
      EXPECT_EQ(stages[2].skipped, 3);
      EXPECT_EQ(stages[2].last_skipped, "multiple of ten: 20");
      EXPECT_EQ(stages[1].last_skipped, "");
      EXPECT_THAT([&] { flat(corrupt(dataset, threads).skip_corrupt(2)); },
                  ThrowsMessage<Error>("more than 2 bad elements, the last: multiple of ten: 20"));
    }
}

TEST(DatasetSkipCorrupt, LeavesOtherErrorsAlone) {
  const Dataset failing = Dataset::range(3).map(
      {{"value", DType::I64, {}, {}}},
      [](const ElementView&, const ElementSlot&) { throw Error("disk full", ErrorKind::DiskFull); });
  EXPECT_THAT([&] { flat(failing.skip_corrupt(9)); }, ThrowsMessage<Error>("disk full"));
}

TEST(DatasetPaddedBatch, PadsToTheLargestOfABatchOrToAShape) {
  // 0: [1,1], 1: [2,1], 2: [1,2] ... filled with their number.
  const Dataset ragged = Dataset::range(1, 4).map({{"x", DType::I64, {-1, -1}, {3, 3}}},
                                                  [](const ElementView& from, const ElementSlot& to) {
                                                    const int64_t value = from.as<int64_t>(0)[0];
                                                    to.set_dims(0, {value == 2 ? 2 : 1, value == 3 ? 3 : 1});
                                                    std::ranges::fill(to.as<int64_t>(0), value);
                                                  });
  EXPECT_EQ(collect(ragged.padded_batch(2)), (Elements{{1, 0, 2, 2}, {3, 3, 3}}));
  EXPECT_EQ(collect(ragged.padded_batch(3, {.values = {9}})),
            (Elements{{1, 9, 9, 9, 9, 9, 2, 9, 9, 2, 9, 9, 3, 3, 3, 9, 9, 9}}));
  EXPECT_EQ(collect(ragged.padded_batch(1, {.shapes = {{2, -1}}})), (Elements{{1, 0}, {2, 2}, {3, 3, 3, 0, 0, 0}}));
  EXPECT_EQ(to_string(ragged.padded_batch(2, {.shapes = {{2, -1}}, .drop_remainder = true}).element()),
            "x i64[2,2,-1]");
  EXPECT_THAT(
      [&] {
        collect(ragged.padded_batch(3, {.shapes = {{2, 2}}}));
      },
      ThrowsMessage<Error>(HasSubstr("is [1,3] in an element, larger than [2,2]")));
  EXPECT_THAT([&] { ragged.padded_batch(2, {.shapes = {{2}}}); },
              ThrowsMessage<Error>(HasSubstr("can't be padded to [2]")));
  EXPECT_THAT([&] { ragged.padded_batch(2, {.values = {0.5}}); },
              ThrowsMessage<Error>(HasSubstr("'x' is i64 and can't be padded with 0.5")));
}

TEST(DatasetUnbatch, TakesBatchesApart) {
  EXPECT_EQ(collect(Dataset::range(5).batch(2).unbatch()), (Elements{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_EQ(collect(counting(8).batch(2).batch(3).unbatch()), (Elements{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(Dataset::range(6).batch(2).unbatch().size(), 6);
  EXPECT_THAT([] { Dataset::range(5).unbatch(); }, ThrowsMessage<Error>(HasSubstr("has no rows")));
}

TEST(DatasetWindow, GivesWindowsThatOverlapOrLeaveGaps) {
  for (const Dataset& dataset : {Dataset::range(7), counting(7)}) {
    EXPECT_EQ(collect(dataset.window(3)), (Elements{{0, 1, 2}, {3, 4, 5}, {6}}));
    EXPECT_EQ(collect(dataset.window(3, {.shift = 2})), (Elements{{0, 1, 2}, {2, 3, 4}, {4, 5, 6}, {6}}));
    EXPECT_EQ(collect(dataset.window(3, {.shift = 2, .stride = 2, .drop_remainder = true})),
              (Elements{{0, 2, 4}, {2, 4, 6}}));
    EXPECT_EQ(collect(dataset.window(2, {.shift = 3})), (Elements{{0, 1}, {3, 4}, {6}}));
    EXPECT_EQ(collect(dataset.window(2, {.shift = 5, .stride = 3})), (Elements{{0, 3}, {5}}));
  }
  EXPECT_EQ(Dataset::range(7).window(3, {.shift = 2}).size(), 4);
  EXPECT_THAT([] { Dataset::range(7).window(0); }, ThrowsMessage<Error>(HasSubstr("at least 1")));
}

TEST(DatasetZip, PutsComponentsSideBySide) {
  for (const Dataset& other : {Dataset::range(10, 13), named(counting(3), "value"), counting(3)}) {
    const Dataset dataset = Dataset::zip({named(Dataset::range(5), "a"), other});
    EXPECT_EQ(to_string(dataset.element()), "a i64[], value i64[]");
    MemoryLine line;
    Iteration iteration = dataset.batch(2).on(line);
    int64_t rows = 0;
    while (const ElementView* const batch = iteration.next()) {
      EXPECT_EQ(batch->dims("a"), batch->dims("value"));
      for (size_t i = 0; i < batch->as<int64_t>("a").size(); ++i)
        EXPECT_EQ(batch->as<int64_t>("a")[i] % 10, batch->as<int64_t>("value")[i] % 10);
      rows += batch->dims("a")[0];
    }
    EXPECT_EQ(rows, 3);
  }
  EXPECT_THAT(
      [] {
        Dataset::zip({Dataset::range(3), Dataset::range(3)});
      },
      ThrowsMessage<Error>(HasSubstr("two components are named 'value'")));
}

TEST(DatasetZip, StaysTogetherWhenShuffledAndStopsAtABadElement) {
  const std::vector<int64_t> x = {1, 2, 3, 4, 5, 6, 7, 8}, y = {10, 20, 30, 40, 50, 60, 70, 80};
  MemoryLine line;
  Iteration iteration = Dataset::zip({Dataset::slices({{"x", x}}), Dataset::slices({{"y", y}})}).shuffle().on(line);
  int rows = 0;
  for (const ElementView& element : iteration) {
    EXPECT_EQ(element.as<int64_t>("x")[0] * 10, element.as<int64_t>("y")[0]);
    ++rows;
  }
  EXPECT_EQ(rows, 8);
  const Dataset bad = Dataset::zip({named(counting(20), "a"), corrupt(Dataset::range(1, 20))}).skip_corrupt(5);
  EXPECT_THAT([&] { flat(bad); },
              ThrowsMessage<Error>(HasSubstr("more than 5 bad elements, the last: multiple of ten: 10")));
}

TEST(DatasetConcatenate, OneAfterTheOther) {
  EXPECT_THAT(flat(Dataset::range(2).concatenate(Dataset::range(5, 7))), ElementsAre(0, 1, 5, 6));
  EXPECT_THAT(flat(counting(2).concatenate(Dataset::range(5, 7))), ElementsAre(0, 1, 5, 6));
  EXPECT_EQ(collect(Dataset::range(3).batch(3).concatenate(Dataset::range(4).batch(2))),
            (Elements{{0, 1, 2}, {0, 1}, {2, 3}}));
  EXPECT_EQ(to_string(Dataset::range(3).batch(3).concatenate(Dataset::range(4).batch(2)).element()), "value i64[-1]");
  EXPECT_EQ(Dataset::range(2).concatenate(Dataset::range(5)).size(), 7);
  const std::vector<int64_t> shuffled = flat(Dataset::range(2).concatenate(Dataset::range(2, 9)).shuffle());
  EXPECT_EQ(std::set<int64_t>(shuffled.begin(), shuffled.end()).size(), 9u);
  EXPECT_THAT([] { Dataset::range(2).concatenate(named(Dataset::range(2), "a")); },
              ThrowsMessage<Error>(HasSubstr("don't go together")));
}

TEST(DatasetEnumerate, NumbersElements) {
  for (const Dataset& dataset : {Dataset::range(3), counting(3)}) {
    MemoryLine line;
    Iteration iteration = dataset.enumerate(5).on(line);
    EXPECT_EQ(to_string(iteration.element()), "index i64[], value i64[]");
    for (int64_t i = 0; i < 3; ++i) {
      const ElementView* const element = iteration.next();
      EXPECT_THAT(element->as<int64_t>("index"), ElementsAre(5 + i));
      EXPECT_THAT(element->as<int64_t>("value"), ElementsAre(i));
    }
  }
}

TEST(DatasetInterleave, TakesTurnsAsTfData) {
  const InterleaveFunction six_times = [](const ElementView& element) {
    const int64_t value = element.as<int64_t>(0)[0];
    return Dataset::range(value, value + 1).repeat(6);
  };
  const std::vector<int64_t> golden = {1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3,
                                       3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5};
  EXPECT_EQ(flat(Dataset::range(1, 6).interleave(six_times, {.cycle = 2, .block = 4})), golden);
  EXPECT_EQ(flat(counting(6).skip(1).interleave(six_times, {.cycle = 2, .block = 4}).batch(7)), golden);
  EXPECT_THAT(flat(Dataset::range(3).flat_map(
                  [](const ElementView& element) { return Dataset::range(element.as<int64_t>(0)[0]); })),
              ElementsAre(0, 0, 1));
}

TEST(DatasetInterleave, RefusesDatasetsOfAnotherKind) {
  const InterleaveFunction changing = [](const ElementView& element) {
    return element.as<int64_t>(0)[0] < 2 ? Dataset::range(4) : Dataset::range(4).batch(2);
  };
  EXPECT_THAT([&] { flat(Dataset::range(4).flat_map(changing)); },
              ThrowsMessage<Error>(HasSubstr("don't go together")));
  EXPECT_THAT([&] { Dataset::range(0).flat_map(changing); },
              ThrowsMessage<Error>(HasSubstr("InterleaveOptions::like")));
  const Dataset like = Dataset::range(1);
  EXPECT_THAT(flat(Dataset::range(0).interleave(changing, {.like = &like})), ElementsAre());
}

// Counts how often an element is made.
Dataset counted_calls(const Dataset& dataset, int& calls) {
  return dataset.map({{"value", DType::I64, {}, {}}}, [&calls](const ElementView& from, const ElementSlot& to) {
    ++calls;
    to.as<int64_t>(0)[0] = from.as<int64_t>(0)[0];
  });
}

TEST(DatasetCache, MakesEachElementOnce) {
  int calls = 0;
  MemoryLine line;
  Iteration iteration = counted_calls(Dataset::range(6), calls).cache().on(line);
  collect(iteration, 2);
  EXPECT_EQ(calls, 2);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    iteration.start_epoch(epoch);
    EXPECT_THAT(flat(collect(iteration)), ElementsAre(0, 1, 2, 3, 4, 5));
  }
  EXPECT_EQ(calls, 6);
}

TEST(DatasetCache, GivesStreamsRandomAccess) {
  const auto pass = [](const ElementView&) { return true; };
  EXPECT_THAT([&] { counting(9).cache(); }, ThrowsMessage<Error>(HasSubstr("put take(n) before cache()")));
  std::vector<int64_t> shuffled = flat(counting(9).take(20).filter(pass).cache().shuffle());
  EXPECT_NE(shuffled, flat(counting(9)));
  std::ranges::sort(shuffled);
  EXPECT_EQ(shuffled, flat(counting(9)));
}

TEST(DatasetCache, KeepsTheOrderOfEpochZero) {
  MemoryLine line;
  Iteration iteration = Dataset::range(20).shuffle().cache().on(line);
  const Elements first = collect(iteration);
  iteration.start_epoch(1);
  EXPECT_EQ(collect(iteration), first);
  // Also when the cache is first filled later, as after a restart.
  Iteration restarted = Dataset::range(20).shuffle().cache().on(line);
  restarted.start_epoch(1);
  EXPECT_EQ(collect(restarted), first);
}

TEST(DatasetCache, AFileServesLaterRuns) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/cache";
  int calls = 0;
  const Dataset dataset = counted_calls(counting(6), calls).cache(path);
  MemoryLine line;
  {
    Iteration stopped = dataset.on(line);
    collect(stopped, 3);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  calls = 0;
  for (int run = 0; run < 3; ++run) EXPECT_THAT(flat(dataset), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(flat(dataset.shuffle()).size(), 6u);
  EXPECT_EQ(calls, 6);
  EXPECT_THAT([&] { flat(counting(6).shuffle(3).cache(path)); },
              ThrowsMessage<Error>(HasSubstr("no cache of this dataset")));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  EXPECT_THAT([&] { flat(dataset); }, ThrowsMessage<Error>(HasSubstr("ends inside a row")));
}

TEST(DatasetCache, AFileKeepsShapesThatDiffer) {
  const TemporaryDirectory directory;
  const Dataset ragged =
      Dataset::range(5).map({{"x", DType::I64, {-1}, {4}}}, [](const ElementView& from, const ElementSlot& to) {
        to.set_dims(0, {from.as<int64_t>(0)[0]});
        std::ranges::fill(to.as<int64_t>(0), from.as<int64_t>(0)[0]);
      });
  const Dataset dataset = ragged.cache(directory.path() + "/cache");
  for (int run = 0; run < 2; ++run) EXPECT_EQ(collect(dataset), collect(ragged));
  EXPECT_EQ(collect(ragged.cache()), collect(ragged));
}

}  // namespace
}  // namespace plimsoll::testing
