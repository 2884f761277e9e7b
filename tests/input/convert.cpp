#include "input/files/convert.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::input {
namespace {

using ::testing::ElementsAre;

template <typename From>
std::vector<float> to_f32(DType from, std::vector<From> input, float scale = 1, float offset = 0) {
  std::vector<float> output(input.size());
  EXPECT_FALSE(convert(from, input.data(), {DType::F32, scale, offset}, output.data(), input.size()));
  return output;
}

TEST(Convert, ScalesToFloat) {
  EXPECT_THAT(to_f32<uint8_t>(DType::U8, {0, 255}, 1.0f / 255), ElementsAre(0, 1));
  EXPECT_THAT(to_f32<uint8_t>(DType::U8, {0, 255}, 2, -1), ElementsAre(-1, 509));
  EXPECT_THAT(to_f32<int8_t>(DType::I8, {-128, 127}), ElementsAre(-128, 127));
  EXPECT_THAT(to_f32<int32_t>(DType::I32, {-5, 7}), ElementsAre(-5, 7));
  EXPECT_THAT(to_f32<int64_t>(DType::I64, {-5, 7}), ElementsAre(-5, 7));
  EXPECT_THAT(to_f32<float>(DType::F32, {1.5f}, 2), ElementsAre(3));
}

TEST(Convert, ReadsHalves) {
  const auto y = to_f32<uint16_t>(DType::F16, {0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x8000});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], -2);
  EXPECT_EQ(y[2], 0x1p-24f);
  EXPECT_EQ(y[3], 1023 * 0x1p-24f);
  EXPECT_EQ(y[4], 65504);
  EXPECT_EQ(y[5], std::numeric_limits<float>::infinity());
  EXPECT_EQ(y[6], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(y[7]));
  EXPECT_EQ(y[8], 0);
}

TEST(Convert, ReadsBrainFloats) {
  const auto y = to_f32<uint16_t>(DType::BF16, {0x3f80, 0xc000, 0x7f80, 0x7fc0});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], -2);
  EXPECT_EQ(y[2], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST(Convert, MakesLabels) {
  std::vector<int32_t> y(3);
  const std::vector<uint8_t> u8{0, 9, 255};
  EXPECT_FALSE(convert(DType::U8, u8.data(), {DType::I32}, y.data(), 3));
  EXPECT_THAT(y, ElementsAre(0, 9, 255));
  const std::vector<int64_t> i64{-1, 2, 3};
  EXPECT_FALSE(convert(DType::I64, i64.data(), {DType::I32}, y.data(), 3));
  EXPECT_THAT(y, ElementsAre(-1, 2, 3));
}

TEST(Convert, FindsTheLabelThatDoesNotFit) {
  std::vector<int32_t> y(3);
  const std::vector<int64_t> i64{1, int64_t(1) << 31, 3};
  EXPECT_EQ(convert(DType::I64, i64.data(), {DType::I32}, y.data(), 3), 1);
}

TEST(Convert, SaysWhyNot) {
  EXPECT_EQ(why_not(DType::U8, {DType::F32, 0.5f}), "");
  EXPECT_EQ(why_not(DType::I64, {DType::I32}), "");
  EXPECT_NE(why_not(DType::F32, {DType::I32}), "");
  EXPECT_NE(why_not(DType::U8, {DType::I32, 2}), "");
  EXPECT_NE(why_not(DType::U8, {DType::F16}), "");
  EXPECT_EQ(why_not(DType::BF16, {DType::F32}), "");
  EXPECT_NE(why_not(DType::BF16, {DType::I32}), "");
}

}  // namespace
}  // namespace plimsoll::input
