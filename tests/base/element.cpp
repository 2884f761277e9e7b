#include "base/element.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

template <class T>
void expect_held(DType dtype, double value, T wanted) {
  const std::optional<ElementBytes> element = element_bytes(dtype, value);
  ASSERT_TRUE(element) << name_of(dtype) << " " << value;
  ASSERT_EQ(element->size, static_cast<Bytes>(sizeof(T)));
  T held;
  std::memcpy(&held, element->bytes.data(), sizeof held);
  EXPECT_EQ(held, wanted);
  std::vector<T> many(5, T(9));
  fill_elements(many.data() + 1, 3, *element);
  EXPECT_EQ(many, (std::vector<T>{T(9), wanted, wanted, wanted, T(9)}));
}

TEST(ElementBytes, HoldEveryType) {
  expect_held(DType::F32, 0.1, 0.1F);
  expect_held(DType::I32, -2147483648.0, std::numeric_limits<int32_t>::min());
  expect_held(DType::I64, -0x1p63, std::numeric_limits<int64_t>::min());
  expect_held(DType::I8, -128, int8_t{-128});
  expect_held(DType::U8, 255, uint8_t{255});
  expect_held(DType::Bool, 1, uint8_t{1});
  expect_held(DType::F16, 0, uint16_t{0});
  expect_held(DType::BF16, 0, uint16_t{0});
}

TEST(ElementBytes, RefuseWhatATypeDoesNotHold) {
  for (const auto& [dtype, value] : {std::pair{DType::I32, 2147483648.0},
                                     {DType::I32, 0.5},
                                     {DType::I64, 0x1p63},
                                     {DType::I64, std::nan("")},
                                     {DType::I8, -129.0},
                                     {DType::U8, 256.0},
                                     {DType::U8, -1.0},
                                     {DType::Bool, 2.0},
                                     {DType::F16, 1.0},
                                     {DType::BF16, -1.0}})
    EXPECT_FALSE(element_bytes(dtype, value)) << name_of(dtype) << " " << value;
}

}  // namespace
}  // namespace plimsoll
