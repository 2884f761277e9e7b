// One matrix product of floats, c = activation(a b + bias) or c += a b. Operands are packed block by block into
// workspace memory of the caller, so that nothing is allocated; the sums run in the same order for any number of
// threads.
#pragma once

#include <plimsoll/types.h>
#include "kernels/activation.h"

namespace plimsoll::kernels {

// A matrix in memory; a transposed one has its strides swapped.
struct MatrixOrder {
  int64_t rows, columns, row_stride, column_stride;
  static MatrixOrder by_rows(int64_t rows, int64_t columns) { return {rows, columns, columns, 1}; }
  MatrixOrder transposed() const { return {columns, rows, column_stride, row_stride}; }
};

// Rows times columns that a thread multiplies out of packed memory, over one stretch of the inner dimension.
struct ProductPiece {
  int64_t rows, columns, inner;
  const float* a;  // at its first row
  int64_t a_row_stride, a_column_stride, a_panel_stride;
  const float* b;            // packed: strips of strip_width() columns, row after row; the last may be half as wide
  int64_t b_row_stride = 0;  // if a has one row: b is not packed, its columns are consecutive; 0: b is packed
  const float* bias;
  float* c;
  int64_t c_stride;
  bool adds;  // to what c holds
  Activation activation;
};
constexpr int64_t kPanel = 6;    // rows in registers at once: 6 x 2 vectors fill the sixteen of AVX2
constexpr int64_t kDepth = 256;  // a strip of b of this depth stays in the first cache
int64_t strip_width();
void multiply(const ProductPiece& piece) noexcept;
// In place.
void activate(float* numbers, int64_t count, Activation activation) noexcept;

// Where b comes from when it is no matrix of floats in memory.
class PackedColumns {
 public:
  virtual ~PackedColumns() = default;
  // Columns [column, column + columns) of rows [row, row + depth), where kDepth divides `row`, as ProductPiece::b.
  virtual void pack(int64_t row, int64_t depth, int64_t column, int64_t columns, float* to) const noexcept = 0;
};

class Product {
 public:
  // The columns of c are consecutive; its rows are `c_stride` apart.
  Product(const MatrixOrder& a, const MatrixOrder& b, int64_t c_stride, bool accumulate = false,
          Activation activation = Activation::None);
  Bytes workspace_bytes() const;
  // `bias` may be null.
  void run(const float* a, const float* b, const float* bias, float* c, void* workspace) const noexcept;
  // The same sums, of another form of b.
  void run(const float* a, const PackedColumns& b, const float* bias, float* c, void* workspace) const noexcept;

 private:
  struct Operands {
    const float *a, *b, *bias;
    float* c;
    const PackedColumns* packed_columns = nullptr;  // instead of b
  };
  void run_chunks(const Operands& in, void* workspace) const noexcept;
  void run_chunk(const Operands& in, int64_t row, int64_t column, float* packed) const noexcept;
  int64_t slot_floats() const;  // workspace of one thread

  MatrixOrder a_, b_;
  int64_t c_stride_;
  bool accumulate_;
  Activation activation_;
  int64_t strip_;  // columns of b that are multiplied at once
  int slots_;      // threads
  bool packs_a_;
  bool reads_b_;  // where it lies, without packing
  int64_t chunk_rows_, chunk_columns_;
};

}  // namespace plimsoll::kernels
