#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "support/error_of.h"

namespace plimsoll {
namespace {

using ::testing::ContainsRegex;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

struct Images {
  std::vector<float> x = std::vector<float>(64 * 16 * 16, 0.5F);
  std::vector<int32_t> y = std::vector<int32_t>(64);
  Dataset batches(int64_t batch) const { return Dataset::slices({{"x", x, {64, 1, 16, 16}}, {"y", y}}).batch(batch); }
};

Model make_net() {
  Model net =
      sequential({layers::conv2d(8, 3, {.padding = "same", .activation = "tanh"}), layers::batch_norm(),
                  layers::conv2d(8, 3, {.padding = "same", .activation = "tanh"}), layers::flatten(), layers::dense(3)},
                 "net");
  net.compile({.optimiser = Optimiser::adam(), .loss = "sparse_cross_entropy"});
  return net;
}

// The row of a layer.
std::string row_of(const std::string& text, const std::string& layer) {
  const size_t begin = text.find("\n" + layer + " ");
  return begin == std::string::npos ? "" : text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TEST(Summary, HasWhatEachLayerHolds) {
  const Images images;
  const Model net = make_net();
  const std::string text = net.summary(images.batches(32), MemoryLine(64 * MiB));
  SCOPED_TRACE(text);
  // 8 filters of 1 x 3 x 3 and 8 biases: 80 numbers, 320 bytes; Adam keeps two of each.
  EXPECT_THAT(row_of(text, "conv2d"), ContainsRegex("conv2d +f32\\[B,8,16,16\\] +80 +320 B +[0-9]+ B +640 B"));
  EXPECT_THAT(row_of(text, "batch_norm"), ContainsRegex("f32\\[B,8,16,16\\] +32 +128 B"));
  EXPECT_THAT(row_of(text, "dense"), ContainsRegex("f32\\[B,3\\] +6,147 +24 KiB +24[.0-9]* KiB +48 KiB"));
  EXPECT_THAT(row_of(text, "reshape"), ContainsRegex("f32\\[B,2048\\] +- +- +- +- +-"));
  EXPECT_THAT(text, HasSubstr("6,827 of these numbers are trained, 16 are statistics"));
  EXPECT_THAT(text, HasSubstr("batch 32"));
  EXPECT_THAT(text, HasSubstr("nothing recomputed"));
  // 32 images of 8 channels of tanh, kept for the backward pass.
  EXPECT_THAT(row_of(text, "conv2d_1"), HasSubstr("256 KiB"));
}

TEST(Summary, ForAnotherBatchAndLine) {
  const Images images;
  Model net = make_net();
  MemoryLine line(64 * MiB);
  EXPECT_THAT(error_of([&] { net.summary(); }), HasSubstr("was shown no training data yet; call plan or fit first"));
  net.fit(images.batches(32), line);
  net.evaluate(images.batches(64), line);
  EXPECT_THAT(net.summary(), HasSubstr("batch 32"));
  EXPECT_THAT(row_of(net.summary(64), "conv2d_1"), HasSubstr("512 KiB"));
  EXPECT_THAT(error_of([&] { net.summary(-1); }), HasSubstr("can't be negative"));
  // Under a line that leaves no room for all of them, some are recomputed.
  const Forecast open = net.plan(images.batches(64), line);
  net.compile({.optimiser = Optimiser::adam(), .loss = "sparse_cross_entropy", .levers = {.micro_batch = false}});
  const std::string tight = net.summary(images.batches(64), MemoryLine(open.peak() * 7 / 10));
  EXPECT_THAT(tight, Not(HasSubstr("nothing recomputed"))) << tight;
  EXPECT_THAT(row_of(tight, "total"), Not(ContainsRegex("-$"))) << tight;
  // Not fitting is an answer here too.
  const std::string refused = net.summary(images.batches(64), MemoryLine(100 * KiB));
  EXPECT_THAT(refused, HasSubstr("does not fit the line of 100 KiB: planned for the smallest line that works, "));
  EXPECT_EQ(error_of([&] { make_net().summary(images.batches(8).repeat(), line); }), "no error");
}

TEST(Summary, NeedsAModelThatIsCompiled) {
  const Images images;
  EXPECT_THAT(error_of([&] { sequential({layers::dense(3)}).summary(images.batches(8), MemoryLine()); }),
              HasSubstr("is not compiled; call compile"));
}

}  // namespace
}  // namespace plimsoll
