#include "kernels/packed_weights.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace plimsoll::kernels {
namespace {

struct Case {
  DType dtype;
  Dims dims;
};

class PackedWeightsTest : public ::testing::TestWithParam<Case> {
 protected:
  // Of very different sizes from row to row.
  static std::vector<float> numbers(int64_t count) {
    std::vector<float> all(static_cast<size_t>(count));
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<float>((unit_real(mix_bits(1, i)) - 0.5) * std::exp(5 * unit_real(mix_bits(2, i))));
    return all;
  }
  static std::vector<std::byte> pack(const PackedWeights& form, const std::vector<float>& from) {
    std::vector<std::byte> packed(static_cast<size_t>(form.bytes()));
    form.pack(from.data(), 0, form.rows, packed.data());
    return packed;
  }
  static std::vector<float> unpack(const PackedWeights& form, const std::vector<std::byte>& packed) {
    std::vector<float> wide(static_cast<size_t>(form.count()));
    form.unpack(packed.data(), 0, form.rows, wide.data());
    return wide;
  }
  const PackedWeights form_{GetParam().dtype, GetParam().dims};
};

TEST_P(PackedWeightsTest, IsNearWhatWasPacked) {
  const std::vector<float> from = numbers(form_.count());
  const std::vector<float> wide = unpack(form_, pack(form_, from));
  for (int64_t r = 0; r < form_.rows; ++r)
    for (int64_t c = 0; c < form_.columns; ++c) {
      const auto at = [&](int64_t row, int64_t column) {
        return from[static_cast<size_t>(row * form_.columns + column)];
      };
      double limit = std::abs(static_cast<double>(at(r, c))) / 256;  // bf16 has eight significant bits
      if (form_.dtype == DType::I8) {
        // Half a code, of the largest number that shares the scale.
        double largest = 0;
        const int64_t top = r / form_.row_stretch * form_.row_stretch,
                      left = c / form_.column_stretch * form_.column_stretch;
        for (int64_t i = top; i < std::min(form_.rows, top + form_.row_stretch); ++i)
          for (int64_t j = left; j < std::min(form_.columns, left + form_.column_stretch); ++j)
            largest = std::max(largest, std::abs(static_cast<double>(at(i, j))));
        limit = largest / 127 * 0.5001;
      }
      ASSERT_NEAR(wide[static_cast<size_t>(r * form_.columns + c)], at(r, c), limit) << r << "," << c;
    }
}

TEST_P(PackedWeightsTest, PacksToTheSameBytesAgain) {
  const std::vector<std::byte> once = pack(form_, numbers(form_.count()));
  EXPECT_EQ(pack(form_, unpack(form_, once)), once);
}

TEST_P(PackedWeightsTest, GoesInPieces) {
  const std::vector<float> from = numbers(form_.count());
  const std::vector<std::byte> whole = pack(form_, from);
  std::vector<std::byte> packed(whole.size());
  for (int64_t first = 0; first < form_.rows; first += form_.row_stretch)
    form_.pack(from.data() + first * form_.columns, first, std::min(form_.row_stretch, form_.rows - first),
               packed.data());
  EXPECT_EQ(packed, whole);
  const std::vector<float> wide = unpack(form_, whole);
  std::vector<float> row(static_cast<size_t>(form_.columns));
  for (int64_t r = 0; r < form_.rows; ++r) {
    form_.unpack(whole.data(), r, 1, row.data());
    ASSERT_EQ(std::memcmp(row.data(), wide.data() + r * form_.columns, row.size() * sizeof(float)), 0);
  }
}

TEST_P(PackedWeightsTest, KeepsZerosAndWhatIsNoNumber) {
  std::vector<float> from(static_cast<size_t>(form_.count()), 0.0F);
  EXPECT_EQ(unpack(form_, pack(form_, from)), from);
  from.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(unpack(form_, pack(form_, from)).back()));
}

INSTANTIATE_TEST_SUITE_P(Forms, PackedWeightsTest,
                         ::testing::Values(Case{DType::BF16, {70, 33}}, Case{DType::I8, {1, 5}},
                                           Case{DType::I8, {64, 7}}, Case{DType::I8, {150, 33}},
                                           Case{DType::I8, {5, 3, 7, 9}}, Case{DType::I8, {3, 64}},
                                           Case{DType::BF16, {2, 3, 4, 5}}));

TEST(PackedWeights, TakesABytePlusAScaleForEachStretch) {
  EXPECT_EQ(PackedWeights(DType::BF16, {768, 3072}).bytes(), 2 * 768 * 3072);
  EXPECT_EQ(PackedWeights(DType::I8, {768, 3072}).bytes(), 768 * 3072 + 768 / 64 * 3072 * 4);
  EXPECT_EQ(PackedWeights(DType::I8, {64, 64, 3, 3}).bytes(), 64 * 576 + 64 * 9 * 4);
}

}  // namespace
}  // namespace plimsoll::kernels
