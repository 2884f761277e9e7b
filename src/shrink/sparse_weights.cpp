#include "shrink/sparse_weights.h"

#include <algorithm>

namespace plimsoll::shrink {
namespace {

using kernels::SparseOrder;
using weights::PutBytes;

// Numbers that are put in pieces.
template <class T>
class Pieces {
 public:
  explicit Pieces(const PutBytes& put) : put_(put) { held_.reserve(kMost); }
  void add(T number) {
    held_.push_back(number);
    if (held_.size() == kMost) flush();
  }
  void flush() {
    if (!held_.empty()) put_(std::as_bytes(std::span(held_)));
    held_.clear();
  }

 private:
  static constexpr size_t kMost = static_cast<size_t>(SparseWeights::kPieceBytes) / sizeof(T);
  const PutBytes& put_;
  std::vector<T> held_;
};

}  // namespace

SparseWeights::SparseWeights(const weights::WeightsReader& reader, const weights::StoredTensor& dense)
    : reader_(reader),
      order_(SparseOrder::of(dense.dims)),
      offset_(dense.offset),
      elements_(element_count(dense.dims)) {}

// A tensor that is no matrix may end within its last row: what is not there is zero.
void SparseWeights::load(int64_t row, int64_t rows, int64_t column, int64_t width, float* into) const {
  constexpr Bytes kFloat = sizeof(float);
  if (width == order_.columns) {
    const int64_t first = row * width, count = std::min(rows * width, elements_ - first);
    reader_.read(offset_ + first * kFloat, into, count * kFloat);
    std::fill(into + count, into + rows * width, 0.0F);
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    reader_.read(offset_ + ((row + r) * order_.columns + column) * kFloat, into + r * width, width * kFloat);
}

void SparseWeights::for_rows(const std::function<void(const Row&)>& visit) const {
  constexpr int64_t kEight = SparseOrder::kTileColumns;
  constexpr int64_t kMostFloats = kBufferBytes / static_cast<Bytes>(sizeof(float));
  // As many columns as fit with all of their rows; or eight, with some of their rows.
  const int64_t chunk_rows = std::max<int64_t>(1, std::min(order_.rows, kMostFloats / kEight));
  const int64_t groups =
      std::clamp<int64_t>(kMostFloats / (chunk_rows * kEight), 1, std::max<int64_t>(1, order_.across()));
  std::vector<float> buffer(static_cast<size_t>(chunk_rows * std::min(groups * kEight, order_.columns)));
  for (int64_t group = 0; group < order_.across(); group += groups) {
    const int64_t column = group * kEight, width = std::min(groups * kEight, order_.columns - column);
    for (int64_t row = 0; row < order_.rows; row += chunk_rows) {
      const int64_t rows = std::min(chunk_rows, order_.rows - row);
      load(row, rows, column, width, buffer.data());
      for (int64_t c = 0; c < width; c += kEight)
        for (int64_t r = 0; r < rows; ++r) visit({row + r, buffer.data() + r * width + c, std::min(kEight, width - c)});
    }
  }
}

int64_t SparseWeights::count_values() const {
  int64_t count = 0;
  for_rows([&](const Row& row) {
    for (int64_t i = 0; i < row.count; ++i) count += static_cast<int64_t>(row.numbers[i] != 0);
  });
  return count;
}

void SparseWeights::write_mask(const PutBytes& put) const {
  Pieces<uint8_t> pieces(put);
  for_rows([&](const Row& row) {
    unsigned byte = 0;
    for (int64_t i = 0; i < row.count; ++i) byte |= static_cast<unsigned>(row.numbers[i] != 0) << i;
    pieces.add(static_cast<uint8_t>(byte));
  });
  pieces.flush();
}

void SparseWeights::write_values(const PutBytes& put) const {
  Pieces<float> pieces(put);
  for_rows([&](const Row& row) {
    for (int64_t i = 0; i < row.count; ++i)
      if (row.numbers[i] != 0) pieces.add(row.numbers[i]);
  });
  pieces.flush();
}

void SparseWeights::write_starts(const PutBytes& put) const {
  Pieces<int32_t> pieces(put);
  int64_t count = 0;
  for_rows([&](const Row& row) {
    if (row.number % SparseOrder::kTileRows == 0) pieces.add(static_cast<int32_t>(count));
    for (int64_t i = 0; i < row.count; ++i) count += static_cast<int64_t>(row.numbers[i] != 0);
  });
  pieces.flush();
}

}  // namespace plimsoll::shrink
