// Weights that training does not change, in fewer bits: bf16, or int8 with a scale for each stretch of 64 weights.
//
//   int8 of a matrix [inputs, outputs]          of filters [filters, channels, height, width]
//     codes   one byte a weight, row-major        the same
//     scales  one for each column and each        one for each 64 consecutive weights of a filter
//             64 rows of it
#pragma once

#include <cstddef>
#include <string_view>

#include <plimsoll/tensor.h>
#include <plimsoll/types.h>

namespace plimsoll::kernels {

// A tensor is packed as a matrix: each row has all dimensions but the first.
struct PackedWeights {
  DType dtype = DType::BF16;  // or I8
  int64_t rows = 0, columns = 0;
  int64_t row_stretch = 1, column_stretch = 1;  // weights that share a scale

  static constexpr int64_t kStretch = 64;
  PackedWeights() = default;
  PackedWeights(DType type, const Dims& dims);  // of at least two dimensions

  int64_t count() const { return rows * columns; }
  Bytes bytes() const;

  // Rows from `first` on; `first` is a multiple of row_stretch, and `count` too unless they are the last rows. Packing
  // what was unpacked gives the same bytes: a scale has 16 significant bits, so that a code times a scale is exact.
  void pack(const float* from, int64_t first, int64_t count, std::byte* packed) const noexcept;
  // Any rows.
  void unpack(const std::byte* packed, int64_t first, int64_t count, float* into) const noexcept;
  // The most rows to pack or unpack at once with so many bytes of floats.
  int64_t rows_within(Bytes bytes) const;

  bool operator==(const PackedWeights&) const = default;

 private:
  int64_t scale_columns() const { return (columns + column_stretch - 1) / column_stretch; }
  int64_t scale_rows() const { return (rows + row_stretch - 1) / row_stretch; }
  Bytes scales_at() const { return round_up(count(), kAlignment); }
  void pack_codes(const float* from, int64_t first, int64_t count, std::byte* packed) const noexcept;
};

}  // namespace plimsoll::kernels
