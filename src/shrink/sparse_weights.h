// A tensor of a weights file as mask, values and starts (kernels/sparse_tiles.h), made in bounded memory.
#pragma once

#include <functional>
#include <vector>

#include "kernels/sparse_tiles.h"
#include "weights/weights_writer.h"

namespace plimsoll::shrink {

class SparseWeights {
 public:
  static constexpr Bytes kBufferBytes = 4 * MiB;  // the most that a pass over a tensor holds
  static constexpr Bytes kPieceBytes = 64 * KiB;  // what it writes at a time

  // The reader must outlive it. The tensor is f32.
  SparseWeights(const weights::WeightsReader& reader, const weights::StoredTensor& dense);

  const kernels::SparseOrder& order() const { return order_; }
  int64_t count_values() const;  // that are not zero
  void write_mask(const weights::PutBytes& put) const;
  void write_values(const weights::PutBytes& put) const;
  void write_starts(const weights::PutBytes& put) const;

 private:
  // In the order of storage: up to eight neighbours of a row.
  struct Row {
    int64_t number;  // within its group of columns
    const float* numbers;
    int64_t count;
  };
  void for_rows(const std::function<void(const Row&)>& visit) const;
  void load(int64_t row, int64_t rows, int64_t column, int64_t width, float* into) const;

  const weights::WeightsReader& reader_;
  kernels::SparseOrder order_;
  Bytes offset_;
  int64_t elements_;
};

}  // namespace plimsoll::shrink
