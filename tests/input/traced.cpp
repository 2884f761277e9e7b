// map with operators.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "input/collect.h"

namespace plimsoll::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<float> counted(size_t count) {
  std::vector<float> all(count);
  std::iota(all.begin(), all.end(), 0.0F);
  return all;
}

TEST(DatasetTracedMap, RunsOperatorsUnderTheLine) {
  const std::vector<float> x = counted(12);
  const std::vector<uint8_t> y = {5, 6, 7, 8};
  for (const int threads : {1, 2, AUTOTUNE}) {
    const Dataset dataset = Dataset::slices({{"x", x, {4, 3}}, {"y", y}})
                                .map(
                                    [](Sample s) {
                                      return Sample{s.x * 2 - 1, s.y};
                                    },
                                    threads)
                                .batch(2);
    EXPECT_EQ(to_string(dataset.element()), "x f32[2,3], y u8[2]");
    MemoryLine line(dataset.bytes());
    Iteration iteration = dataset.on(line);
    const ElementView* batch = iteration.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_THAT(batch->as<float>("x"), ElementsAre(-1, 1, 3, 5, 7, 9));
    EXPECT_THAT(batch->as<uint8_t>("y"), ElementsAre(5, 6));
    batch = iteration.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_THAT(batch->as<float>("x"), ElementsAre(11, 13, 15, 17, 19, 21));
    EXPECT_EQ(iteration.next(), nullptr);
    EXPECT_LE(line.used(), dataset.bytes());
  }
}

TEST(DatasetTracedMap, TakesBatchesAndTheirShortLastOne) {
  const std::vector<float> x = counted(10);
  const Dataset dataset = Dataset::slices({{"x", x, {5, 2}}}).batch(2).map([](const Sample& s) {
    return Sample{.x = reduce_sum(s.x, {1}), .more = {relu(s["x"] - 3)}, .names = {"sum", "above"}};
  });
  EXPECT_EQ(to_string(dataset.element()), "sum f32[-1], above f32[-1,2]");
  MemoryLine line;
  Iteration iteration = dataset.skip(1).on(line);
  const ElementView* batch = iteration.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_THAT(batch->as<float>("sum"), ElementsAre(9, 13));
  EXPECT_THAT(batch->as<float>("above"), ElementsAre(1, 2, 3, 4));
  batch = iteration.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_THAT(batch->as<float>("sum"), ElementsAre(17));
}

TEST(DatasetTracedMap, GivesTheSameForAnyNumberOfThreads) {
  const std::vector<float> x = counted(64 * 50);
  const auto sums = [&](int threads) {
    MemoryLine line;
    std::vector<float> all;
    Iteration iteration = Dataset::slices({{"x", x, {50, 64}}})
                              .map([](const Sample& s) { return Sample{softmax(s.x * 0.01)}; }, threads)
                              .shuffle()
                              .batch(8)
                              .prefetch(2)
                              .on(line);
    for (const ElementView& batch : iteration)
      all.insert(all.end(), batch.as<float>(0).begin(), batch.as<float>(0).end());
    return all;
  };
  EXPECT_EQ(sums(1).size(), x.size());
  EXPECT_EQ(sums(1), sums(2));
  EXPECT_EQ(sums(1), sums(4));
}

TEST(DatasetTracedMap, RefusesWhatHasNoShape) {
  const Dataset ragged =
      Dataset::range(5).map({{"x", DType::F32, {2, -1}, {2, 4}}}, [](const ElementView&, const ElementSlot&) {});
  EXPECT_THAT([&] { ragged.map([](const Sample& s) { return s; }); },
              ThrowsMessage<Error>(HasSubstr("differs in shape")));
  EXPECT_THAT([] { Dataset::range(3).map([](const Sample& s) { return Sample{s["z"]}; }); },
              ThrowsMessage<Error>(HasSubstr("no component 'z'; it has: value")));
}

}  // namespace
}  // namespace plimsoll::testing
