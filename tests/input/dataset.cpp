#include <plimsoll/dataset.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/collect.h"
#include "input/files.h"

namespace plimsoll::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Dataset, RangeCountsUpAndDown) {
  EXPECT_THAT(flat(Dataset::range(3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(flat(Dataset::range(2, 9, 3)), ElementsAre(2, 5, 8));
  EXPECT_THAT(flat(Dataset::range(5, 1, -2)), ElementsAre(5, 3));
  EXPECT_THAT(flat(Dataset::range(5, 5)), ElementsAre());
  EXPECT_EQ(Dataset::range(2, 9, 3).size(), 3);
  EXPECT_THAT([] { Dataset::range(0, 3, 0); }, ThrowsMessage<Error>(HasSubstr("step 0")));
}

TEST(Dataset, SlicesGiveNamedRowsOfArrays) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> y = {7, 8, 9};
  const Dataset dataset = Dataset::slices({{"x", x, {3, 2}}, {"y", y}});
  EXPECT_EQ(to_string(dataset.element()), "x f32[2], y i64[]");
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  iteration.next();
  const ElementView* const second = iteration.next();
  ASSERT_NE(second, nullptr);
  EXPECT_THAT(second->as<float>("x"), ElementsAre(3, 4));
  EXPECT_THAT(second->as<int64_t>("y"), ElementsAre(8));
  EXPECT_THAT([&] { second->as<float>("y"); }, ThrowsMessage<Error>(HasSubstr("'y' is i64 and can't be read as f32")));
  EXPECT_THAT([&] { second->as<float>("z"); }, ThrowsMessage<Error>(HasSubstr("no component 'z'")));
}

TEST(Dataset, SlicesRefuseWhatDoesNotBelongTogether) {
  const std::vector<float> x = {1, 2, 3, 4};
  const std::vector<int64_t> y = {7, 8, 9};
  EXPECT_THAT([&] { Dataset::slices({{"x", x}, {"y", y}}); }, ThrowsMessage<Error>(HasSubstr("belongs together")));
  EXPECT_THAT([&] { Dataset::slices({{"x", x, {3, 2}}}); }, ThrowsMessage<Error>(HasSubstr("16 bytes but f32[3,2]")));
  EXPECT_THAT([&] { Dataset::slices({{"x", x}, {"x", x}}); }, ThrowsMessage<Error>(HasSubstr("two components")));
}

TEST(Dataset, FilesAreReadByContent) {
  const TemporaryDirectory directory;
  const std::string x = directory.write("x.npy", npy("'<f4'", "(3, 2)", raw<float>({1, 2, 3, 4, 5, 6})));
  const std::string y = directory.write("y", idx(8, {3}, raw<uint8_t>({7, 8, 9})));
  MemoryLine line;
  Iteration iteration = Dataset::files(x, y).batch(2).on(line);
  EXPECT_EQ(to_string(iteration.element()), "x f32[-1,2], y u8[-1]");
  const ElementView* batch = iteration.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_THAT(batch->as<float>("x"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch->as<uint8_t>("y"), ElementsAre(7, 8));
  batch = iteration.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->dims("x"), (Dims{1, 2}));
  EXPECT_THAT(batch->as<float>("x"), ElementsAre(5, 6));
  EXPECT_EQ(iteration.next(), nullptr);
  EXPECT_EQ(iteration.next(), nullptr);
}

TEST(Dataset, AGeneratorStartsAnewInEachEpoch) {
  MemoryLine line;
  Iteration iteration = counting(3).on(line);
  EXPECT_THAT(flat(collect(iteration)), ElementsAre(0, 1, 2));
  EXPECT_EQ(iteration.next(), nullptr);
  iteration.start_epoch(1);
  EXPECT_THAT(flat(collect(iteration)), ElementsAre(0, 1, 2));
}

TEST(Dataset, AGeneratorChecksTheSizesItIsGiven) {
  const auto of = [](const Dims& dims) {
    return Dataset::generator({{"x", DType::I64, {-1}, {4}}}, [dims] {
      return [dims](const ElementSlot& to) {
        to.set_dims(0, dims);
        std::ranges::fill(to.as<int64_t>(0), 5);
        return true;
      };
    });
  };
  EXPECT_THAT(flat(of({2}), 1), ElementsAre(5, 5));
  EXPECT_THAT([&] { collect(of({5}), 1); },
              ThrowsMessage<Error>(HasSubstr("can't be [5]: its shape is [-1], at most [4]")));
  EXPECT_THAT(
      [&] {
        Dataset::generator({{"x", DType::I64, {-1}, {}}}, [] { return Generator(); });
      },
      ThrowsMessage<Error>(HasSubstr("largest size")));
}

TEST(Dataset, TheLastBatchIsShortOrDropped) {
  EXPECT_EQ(collect(Dataset::range(5).batch(2)), (Elements{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(collect(Dataset::range(5).batch(2, true)), (Elements{{0, 1}, {2, 3}}));
  EXPECT_EQ(collect(counting(5).batch(2)), (Elements{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(collect(Dataset::range(6).batch(2).batch(2)), (Elements{{0, 1, 2, 3}, {4, 5}}));
  EXPECT_EQ(Dataset::range(5).batch(2).size(), 3);
  EXPECT_EQ(Dataset::range(5).batch(2, true).size(), 2);
  EXPECT_EQ(to_string(Dataset::range(5).batch(2).element()), "value i64[-1]");
  EXPECT_EQ(to_string(Dataset::range(6).batch(2).element()), "value i64[2]");
  EXPECT_THAT([] { Dataset::range(5).batch(0); }, ThrowsMessage<Error>(HasSubstr("at least 1")));
}

TEST(Dataset, ABatchOfDifferentShapesIsRefused) {
  const Dataset ragged = Dataset::generator({{"x", DType::I64, {-1}, {4}}}, [] {
    return [next = 0](const ElementSlot& to) mutable {
      to.set_dims(0, {next / 2 + 1});
      std::ranges::fill(to.as<int64_t>(0), next);
      return next++ < 5;
    };
  });
  EXPECT_EQ(collect(ragged.batch(2)), (Elements{{0, 1}, {2, 2, 3, 3}, {4, 4, 4}}));
  EXPECT_THAT([&] { collect(ragged.batch(3)); }, ThrowsMessage<Error>(HasSubstr("[1] in one element and [2]")));
}

TEST(Dataset, TakeSkipAndShardChooseElements) {
  for (const Dataset& dataset : {Dataset::range(10), counting(10)}) {
    EXPECT_THAT(flat(dataset.take(3)), ElementsAre(0, 1, 2));
    EXPECT_THAT(flat(dataset.take(-1).skip(8)), ElementsAre(8, 9));
    EXPECT_THAT(flat(dataset.skip(20)), ElementsAre());
    EXPECT_THAT(flat(dataset.skip(-1)), ElementsAre());
    EXPECT_THAT(flat(dataset.shard(4, 1)), ElementsAre(1, 5, 9));
    EXPECT_THAT(flat(dataset.shard(4, 1).skip(1).take(1)), ElementsAre(5));
  }
  EXPECT_EQ(Dataset::range(10).shard(4, 1).size(), 3);
  EXPECT_EQ(Dataset::range(10).take(20).size(), 10);
  EXPECT_EQ(counting(10).take(20).size(), Dataset::kUnknown);
  EXPECT_EQ(Dataset::range(10).repeat().take(20).size(), 20);
  EXPECT_THAT([] { Dataset::range(3).shard(2, 2); }, ThrowsMessage<Error>(HasSubstr("0 .. that - 1")));
}

TEST(Dataset, RepeatEndsOrGoesOn) {
  EXPECT_THAT(flat(Dataset::range(2).repeat(3)), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(flat(Dataset::range(2).repeat(), 5), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(flat(counting(2).repeat(2)), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(flat(Dataset::range(2).repeat(0)), ElementsAre());
  EXPECT_THAT(flat(Dataset::range(0).repeat()), ElementsAre());
  EXPECT_EQ(Dataset::range(2).repeat().size(), Dataset::kInfinite);
  EXPECT_EQ(collect(Dataset::range(3).repeat(2).batch(2)), (Elements{{0, 1}, {2, 0}, {1, 2}}));
}

TEST(Dataset, BytesAreKnownBeforeAndHeldExactly) {
  const Dataset dataset = times_ten(counting(1000), 3).shuffle(100).batch(8).prefetch(3);
  MemoryLine line(dataset.bytes());
  {
    Iteration iteration = dataset.on(line);
    EXPECT_EQ(line.used(Tag::Data), dataset.bytes());
    collect(iteration);
    EXPECT_EQ(line.used(Tag::Data), dataset.bytes());
    EXPECT_EQ(iteration.bytes(), dataset.bytes());
  }
  EXPECT_EQ(line.used(), 0);
  MemoryLine small(dataset.bytes() - 1);
  EXPECT_THROW(dataset.on(small), DoesNotFit);
}

TEST(Dataset, StagesReportWhatTheyHoldAndDid) {
  const Dataset dataset = times_ten(Dataset::range(100), 2).batch(10).prefetch(2);
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  collect(iteration);
  const std::vector<StageReport> stages = iteration.stages();
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_EQ(stages[0].name, "range(0,100,1)");
  EXPECT_EQ(stages[1].name, "map(to value i64[])");
  EXPECT_EQ(stages[1].threads, 1);
  EXPECT_EQ(stages[1].elements, 100);
  EXPECT_GT(stages[1].busy_ns, 0);
  EXPECT_EQ(stages[2].elements, 10);
  EXPECT_EQ(stages[3].threads, 1);
  EXPECT_GT(stages[3].bytes, 0);
}

TEST(Dataset, AnIterationThatWasMovedSaysSo) {
  MemoryLine line;
  Iteration iteration = Dataset::range(3).on(line);
  Iteration taken = std::move(iteration);
  // NOLINTBEGIN(bugprone-use-after-move)
  const auto moved = ThrowsMessage<Error>(HasSubstr("the iteration was moved away"));
  EXPECT_THAT([&] { iteration.next(); }, moved);
  EXPECT_THAT([&] { static_cast<void>(iteration.state()); }, moved);
  EXPECT_THAT([&] { iteration.start_epoch(1); }, moved);
  EXPECT_THAT([&] { iteration.stages(); }, moved);
  EXPECT_THAT([&] { static_cast<void>(iteration.bytes()); }, moved);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_NE(taken.next(), nullptr);
}

}  // namespace
}  // namespace plimsoll::testing
