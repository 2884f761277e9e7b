#include "kernels/strided_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "kernels/parallel.h"
#include "kernels/transpose_panel.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kGrainBytes = int64_t{64} * 1024;
constexpr int64_t kTile = 16;  // of a transposition: one cache line of floats
constexpr int64_t kBand = 64;  // tiles are taken in squares of this size, so that few pages are open at once

struct Wide {
  uint64_t low, high;
};

template <class T>
void transpose_tile(const T* from, int64_t from_stride, T (&tile)[kTile][kTile]) {
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kTile; ++j) tile[j][i] = from[i * from_stride + j];
}

// to[r][c] = from[c][r].
template <class T>
struct Panel {
  const T* from;
  T* to;
  int64_t from_stride, to_stride;

  void transpose(int64_t rows, int64_t first_column, int64_t columns) const {
    if constexpr (std::is_same_v<T, uint32_t>)
      return transpose_panel({from + first_column * from_stride, to + first_column, from_stride, to_stride}, rows,
                             columns);
    for (int64_t r = 0; r < rows; r += kTile)
      for (int64_t c = first_column; c < first_column + columns; c += kTile)
        transpose_part(r, std::min(kTile, rows - r), c, std::min(kTile, first_column + columns - c));
  }

 private:
  void transpose_part(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    const T* source = from + column * from_stride + row;
    T* target = to + row * to_stride + column;
    if (rows == kTile && columns == kTile) {
      // Through a small buffer: whole cache lines are written, whatever the strides.
      T tile[kTile][kTile];
      transpose_tile(source, from_stride, tile);
      for (int64_t r = 0; r < kTile; ++r) std::memcpy(target + r * to_stride, tile[r], sizeof tile[r]);
      return;
    }
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < rows; ++r) target[r * to_stride + c] = source[c * from_stride + r];
  }
};

}  // namespace

// A place among the outer dimensions, moved on one by one.
class StridedCopy::Position {
 public:
  Position(const StridedCopy& copy, int64_t index) : copy_(copy) {
    for (int i = copy.rank_ - 1; i >= 0; --i) {
      const Dimension& d = copy.dims_[static_cast<size_t>(i)];
      const int64_t at = index % d.size;
      index /= d.size;
      at_[static_cast<size_t>(i)] = at;
      from += at * d.from;
      to += at * d.to;
    }
  }
  void advance() {
    for (int i = copy_.rank_ - 1; i >= 0; --i) {
      const Dimension& d = copy_.dims_[static_cast<size_t>(i)];
      int64_t& at = at_[static_cast<size_t>(i)];
      from += d.from;
      to += d.to;
      if (++at < d.size) return;
      from -= at * d.from;
      to -= at * d.to;
      at = 0;
    }
  }
  int64_t from = 0, to = 0;

 private:
  const StridedCopy& copy_;
  std::array<int64_t, size_t{2} * kMaxRank> at_{};
};

void StridedCopy::add(int64_t size, int64_t from, int64_t to) {
  if (size != 1) dims_[static_cast<size_t>(rank_++)] = {size, from, to};
}

void StridedCopy::finish() {
  const auto begin = dims_.begin();
  std::stable_sort(begin, begin + rank_, [](const Dimension& a, const Dimension& b) { return a.to > b.to; });
  int merged = 0;
  for (int i = 0; i < rank_; ++i) {
    const Dimension d = dims_[static_cast<size_t>(i)];
    Dimension* last = merged > 0 ? &dims_[static_cast<size_t>(merged) - 1] : nullptr;
    if (last != nullptr && last->from == d.from * d.size && last->to == d.to * d.size)
      *last = {last->size * d.size, d.from, d.to};
    else
      dims_[static_cast<size_t>(merged++)] = d;
  }
  rank_ = merged;
  widen();
  const auto take = [&](int i) {
    const Dimension d = dims_[static_cast<size_t>(i)];
    std::copy(begin + i + 1, begin + rank_, begin + i);
    --rank_;
    return d;
  };
  if (rank_ > 0) inner_ = take(rank_ - 1);
  if (inner_.to != 1) {
    way_ = Way::Elements;
  } else if (inner_.from == 1) {
    way_ = Way::Runs;
  } else if (inner_.from == 0) {
    way_ = Way::Fill;
  } else {
    way_ = Way::Elements;
    for (int i = rank_ - 1; i >= 0; --i) {
      if (dims_[static_cast<size_t>(i)].from != 1) continue;
      across_ = take(i);
      way_ = Way::Transpose;
      break;
    }
  }
  for (int i = 0; i < rank_; ++i) outer_count_ *= dims_[static_cast<size_t>(i)].size;
}

// A short run that always moves together is one wide element.
void StridedCopy::widen() {
  if (rank_ < 2) return;
  const Dimension run = dims_[static_cast<size_t>(rank_) - 1];
  const Bytes bytes = run.size * element_bytes_;
  if (run.from != 1 || run.to != 1 || bytes > 16 || (bytes & (bytes - 1)) != 0) return;
  bool divides = from_start_ % run.size == 0 && to_start_ % run.size == 0;
  for (int i = 0; i + 1 < rank_; ++i)
    divides = divides && dims_[static_cast<size_t>(i)].from % run.size == 0 &&
              dims_[static_cast<size_t>(i)].to % run.size == 0;
  if (!divides) return;
  element_bytes_ = bytes;
  from_start_ /= run.size;
  to_start_ /= run.size;
  --rank_;
  for (int i = 0; i < rank_; ++i) {
    dims_[static_cast<size_t>(i)].from /= run.size;
    dims_[static_cast<size_t>(i)].to /= run.size;
  }
}

void StridedCopy::run(const void* from, void* to) const {
  if (outer_count_ == 0 || inner_.size == 0 || across_.size == 0) return;
  switch (element_bytes_) {
    case 1:
      return run_as(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
    case 2:
      return run_as(static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
    case 4:
      return run_as(static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to));
    case 8:
      return run_as(static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to));
    default:
      return run_as(static_cast<const Wide*>(from), static_cast<Wide*>(to));
  }
}

template <class T>
void StridedCopy::run_as(const T* from, T* to) const {
  from += from_start_;
  to += to_start_;
  switch (way_) {
    case Way::Runs:
      return copy_bytes(reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to));
    case Way::Transpose:
      return transpose(from, to);
    case Way::Fill:
    case Way::Elements:
      return copy_elements(from, to);
  }
}

void StridedCopy::copy_bytes(const std::byte* from, std::byte* to) const {
  // Long runs are cut, so that one alone keeps all threads busy.
  const int64_t cuts = std::clamp<int64_t>(inner_.size * element_bytes_ / kGrainBytes, 1, 64);
  const int64_t run_bytes = inner_.size * element_bytes_;
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(1, run_bytes / cuts));
  parallel_for(outer_count_ * cuts, grain, [&](int64_t first, int64_t last) {
    Position at(*this, first / cuts);
    const auto copy = [&](int64_t start, int64_t bytes) {
      std::memcpy(to + at.to * element_bytes_ + start, from + at.from * element_bytes_ + start,
                  static_cast<size_t>(bytes));
    };
    if (cuts == 1) {
      for (int64_t i = first; i < last; ++i, at.advance()) copy(0, run_bytes);
      return;
    }
    for (int64_t i = first; i < last; ++i) {
      const int64_t cut = i % cuts;
      const int64_t start = run_bytes * cut / cuts;
      copy(start, run_bytes * (cut + 1) / cuts - start);
      if (cut == cuts - 1) at.advance();
    }
  });
}

template <class T>
void StridedCopy::transpose(const T* from, T* to) const {
  const int64_t bands = (across_.size + kBand - 1) / kBand;
  const int64_t band_bytes = std::min(kBand, across_.size) * inner_.size * element_bytes_;
  parallel_for(outer_count_ * bands, std::max<int64_t>(1, kGrainBytes / band_bytes), [&](int64_t first, int64_t last) {
    Position at(*this, first / bands);
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i % bands * kBand;  // of `to`, a column of `from`
      const int64_t rows = std::min(kBand, across_.size - row);
      const Panel<T> panel{from + at.from + row, to + at.to + row * across_.to, inner_.from, across_.to};
      for (int64_t column = 0; column < inner_.size; column += kBand)
        panel.transpose(rows, column, std::min(kBand, inner_.size - column));
      if (i % bands == bands - 1) at.advance();
    }
  });
}

template <class T>
void StridedCopy::copy_elements(const T* from, T* to) const {
  const int64_t cuts = std::clamp<int64_t>(inner_.size * element_bytes_ / kGrainBytes, 1, 64);
  const int64_t unit_bytes = inner_.size * element_bytes_ / cuts;
  parallel_for(outer_count_ * cuts, std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(1, unit_bytes)),
               [&](int64_t first, int64_t last) {
                 Position at(*this, first / cuts);
                 for (int64_t i = first; i < last; ++i) {
                   const int64_t cut = i % cuts;
                   const int64_t start = inner_.size * cut / cuts;
                   const int64_t end = inner_.size * (cut + 1) / cuts;
                   const T* source = from + at.from;
                   T* target = to + at.to;
                   if (way_ == Way::Fill)
                     std::fill(target + start, target + end, *source);
                   else if (inner_.to == 1)
                     for (int64_t j = start; j < end; ++j) target[j] = source[j * inner_.from];
                   else
                     for (int64_t j = start; j < end; ++j) target[j * inner_.to] = source[j * inner_.from];
                   if (cut == cuts - 1) at.advance();
                 }
               });
}

Dims strides_of(const Dims& dims) {
  Dims strides = Dims::filled(dims.rank(), 1);
  for (int i = dims.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

}  // namespace plimsoll::kernels
