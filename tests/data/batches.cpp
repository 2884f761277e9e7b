#include "data/batches.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/files.h"

namespace plimsoll::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::idx;
using testing::npy;
using testing::raw;

// Sample i of `features` is {i, i + 1}, of `labels` i % 10.
class BatchesTest : public ::testing::Test {
 protected:
  BatchesTest() {
    std::vector<uint8_t> labels;
    std::vector<int32_t> features;
    for (int i = 0; i < 25; ++i) {
      features.insert(features.end(), {i, i + 1});
      labels.push_back(i % 10);
    }
    features_ = open_source(dir_.write("x.npy", npy("'<i4'", "(25, 2)", raw(features))));
    labels_ = open_source(dir_.write("y", idx(0x08, {25}, raw(labels))));
  }

  Batches make(BatchOptions options) { return Batches({features_.get(), labels_.get()}, options, line_); }

  // The first feature of each sample of the rest of the epoch; checks the rest of the row.
  static std::vector<int> rest(Batches& batches) {
    std::vector<int> seen;
    std::vector<int32_t> x(batches.batch() * 2);
    std::vector<uint8_t> y(batches.batch());
    while (const int64_t rows = batches.next(std::vector<void*>{x.data(), y.data()}))
      for (int64_t i = 0; i < rows; ++i) {
        EXPECT_EQ(x[2 * i + 1], x[2 * i] + 1);
        EXPECT_EQ(y[i], x[2 * i] % 10);
        seen.push_back(x[2 * i]);
      }
    return seen;
  }

  static std::vector<int> counting(int n) {
    std::vector<int> all(n);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  testing::TemporaryDirectory dir_;
  std::unique_ptr<Source> features_, labels_;
  MemoryLine line_{MiB};
};

TEST_F(BatchesTest, KeepsFileOrder) {
  Batches batches = make({.batch = 10});
  EXPECT_EQ(batches.batches_per_epoch(), 3);
  EXPECT_EQ(rest(batches), counting(25));
  EXPECT_EQ(rest(batches), std::vector<int>());
  batches.start_epoch(1);
  EXPECT_EQ(rest(batches), counting(25));
  EXPECT_EQ(line_.used(), 0);
}

TEST_F(BatchesTest, DropsTheRemainder) {
  Batches batches = make({.batch = 10, .drop_remainder = true});
  EXPECT_EQ(batches.batches_per_epoch(), 2);
  EXPECT_EQ(rest(batches), counting(20));
}

TEST_F(BatchesTest, ShufflesDifferentlyEachEpoch) {
  Batches batches = make({.batch = 4, .shuffle = true, .seed = 3});
  const std::vector<int> first = rest(batches);
  batches.start_epoch(1);
  std::vector<int> second = rest(batches);
  EXPECT_NE(first, counting(25));
  EXPECT_NE(first, second);
  std::ranges::sort(second);
  EXPECT_EQ(second, counting(25));
  batches.start_epoch(0);
  EXPECT_EQ(rest(batches), first);
}

TEST_F(BatchesTest, GoesOnWhereItWas) {
  const BatchOptions options{.batch = 4, .shuffle = true, .seed = 3};
  Batches whole = make(options);
  whole.start_epoch(5);
  const std::vector<int> all = rest(whole);

  Batches stopped = make(options);
  stopped.start_epoch(5);
  std::vector<int32_t> x(8);
  std::vector<uint8_t> y(4);
  EXPECT_EQ(stopped.next(std::vector<void*>{x.data(), y.data()}), 4);
  const BatchState state = stopped.state();
  EXPECT_EQ(state, (BatchState{3, 5, 4}));

  Batches resumed = make({.batch = 4, .shuffle = true, .seed = 99});
  resumed.seek(state);
  EXPECT_EQ(rest(resumed), std::vector<int>(all.begin() + 4, all.end()));
  EXPECT_THROW(resumed.seek({3, 5, 26}), Error);
  EXPECT_THROW(resumed.seek({3, -1, 0}), Error);
}

TEST_F(BatchesTest, ConvertsThroughReservedStaging) {
  {
    Batches batches = make({.batch = 3, .conversions = {Conversion{DType::F32, 0.5f, 1}, Conversion{DType::I32}}});
    EXPECT_EQ(batches.dtype(0), DType::F32);
    EXPECT_EQ(batches.dtype(1), DType::I32);
    EXPECT_EQ(batches.row_bytes(1), 4);
    EXPECT_EQ(line_.used(Tag::Data), 64 * KiB);
    std::vector<float> x(6);
    std::vector<int32_t> y(3);
    EXPECT_EQ(batches.next(std::vector<void*>{x.data(), y.data()}), 3);
    EXPECT_THAT(x, ElementsAre(1, 1.5, 1.5, 2, 2, 2.5));
    EXPECT_THAT(y, ElementsAre(0, 1, 2));
  }
  EXPECT_EQ(line_.used(), 0);
}

TEST_F(BatchesTest, ConvertsRunsLongerThanStaging) {
  std::vector<uint8_t> pixels(50 * 9000);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(i * 7);
  const auto images = open_source(dir_.write("i", idx(0x08, {50, 9000}, raw(pixels))));
  Batches batches({images.get()}, {.batch = 50, .conversions = {Conversion{DType::F32}}}, line_);
  std::vector<float> x(pixels.size());
  EXPECT_EQ(batches.next(std::vector<void*>{x.data()}), 50);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], float(pixels[i])) << i;
}

TEST_F(BatchesTest, RefusesWhatDoesNotBelongTogether) {
  const auto other = open_source(dir_.write("z", idx(0x08, {2}, "ab")));
  EXPECT_THAT(testing::refusal([&] {
                Batches({features_.get(), other.get()}, {}, line_);
              }),
              HasSubstr("z has 2 samples but"));
}

TEST_F(BatchesTest, RefusesOptionsWithoutSense) {
  const auto refused = [&](const BatchOptions& options) {
    return testing::refusal([&] { make(options); }, ErrorKind::Usage);
  };
  EXPECT_THAT(refused({.batch = 0}), HasSubstr("at least 1"));
  EXPECT_THAT(refused({.batch = int64_t(1) << 62}), HasSubstr("too large"));
  EXPECT_THAT(refused({.batch = 26, .drop_remainder = true}), HasSubstr("smaller batch"));
  EXPECT_THAT(refused({.conversions = {std::nullopt}}), HasSubstr("1 conversions for 2 sources"));
  EXPECT_THAT(refused({.conversions = {Conversion{DType::I32, 2}, std::nullopt}}), HasSubstr("need f32"));
  EXPECT_THAT(testing::refusal([&] { Batches({}, {}, line_); }, ErrorKind::Usage), HasSubstr("at least one"));
}

TEST_F(BatchesTest, RefusesStagingBeyondTheLine) {
  MemoryLine small(KiB);
  const BatchOptions options{.conversions = {Conversion{DType::F32}, std::nullopt}};
  EXPECT_THAT(testing::refusal(
                  [&] {
                    Batches({features_.get(), labels_.get()}, options, small);
                  },
                  ErrorKind::DoesNotFit),
              HasSubstr("data asks for"));
}

TEST_F(BatchesTest, NamesTheSampleThatDoesNotFit) {
  const auto labels = open_source(dir_.write("l.npy", npy("'<i8'", "(3,)", raw<int64_t>({1, 2, int64_t(1) << 40}))));
  Batches batches({labels.get()}, {.batch = 3, .conversions = {Conversion{DType::I32}}}, line_);
  std::vector<int32_t> y(3);
  EXPECT_THAT(testing::refusal([&] { batches.next(std::vector<void*>{y.data()}); }), HasSubstr("sample 2 holds"));
  EXPECT_EQ(batches.state().position, 0);
}

}  // namespace
}  // namespace plimsoll::data
