// A matrix with many zeros in memory: a bit for each element, the elements whose bit is set, and where each tile of
// them starts. Eight neighbouring columns share a byte; bytes and elements go down the rows of eight columns, then on
// to the next eight:
//
//        columns 0-7   8-15   ...     mask[g * rows + r]           columns 8g to 8g + 7 of row r, lowest bit first
//   rows    |  ^  |    |  ^  |        values                       in the order of the bits
//    0-255  |  |  |    |  |  |        starts[g * tiles_down + t]   the first value of rows 256t and on
//           v  |  v    v  |  v
//
// A tensor that is no matrix is one of eight columns, row-major; the last row may be filled up.
#pragma once

#include <cstddef>
#include <cstdint>

#include <plimsoll/tensor.h>
#include <plimsoll/types.h>
#include "kernels/activation.h"

namespace plimsoll::kernels {

struct SparseOrder {
  static constexpr int64_t kTileRows = 256;  // the depth of a product's panels
  static constexpr int64_t kTileColumns = 8;

  int64_t rows = 0, columns = 0;
  static SparseOrder of(const Dims& dims) {
    if (dims.rank() == 2) return {dims[0], dims[1]};
    return {(element_count(dims) + kTileColumns - 1) / kTileColumns, kTileColumns};
  }
  int64_t across() const { return (columns + kTileColumns - 1) / kTileColumns; }
  int64_t tiles_down() const { return (rows + kTileRows - 1) / kTileRows; }
  int64_t mask_bytes() const { return across() * rows; }
  int64_t starts() const { return across() * tiles_down(); }
  // Bytes of mask, starts and so many values.
  Bytes bytes(int64_t values) const { return mask_bytes() + 4 * starts() + 4 * values; }
};

struct SparseMatrix {
  SparseOrder order;
  const uint8_t* mask;
  const float* values;
  int64_t value_count;
  const int32_t* starts;

  // Whether the tile's values are all there: files may hold anything.
  bool has_tile(int64_t group, int64_t tile) const noexcept;
  // Rows [row, row + rows) of the tile that `row` begins, eight columns each, `stride` floats apart. A tile that is not
  // whole becomes zero; returns false then.
  bool expand(int64_t group, int64_t row, int64_t rows, float* to, int64_t stride) const noexcept;
  // For each of `vectors` (at most kMostVectors) x, of `rows` floats that are `x_stride` apart: the products with eight
  // columns, sums in the order of the rows that start with what is in `sums`. False as above.
  static constexpr int kMostVectors = 4;
  bool multiply(int64_t group, const float* x, int64_t x_stride, int vectors, float (*sums)[8]) const noexcept;
};

// In place.
void activate_all(Activation activation, float* x, int64_t count) noexcept;

}  // namespace plimsoll::kernels
