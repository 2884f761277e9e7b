#include "kernels/product.h"

#include <algorithm>
#include <cstring>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/product.cpp"
#include <hwy/foreach_target.h>

#include "kernels/activate-inl.h"

//  A thread takes a chunk of c and makes it over kDepth of the inner dimension at a time:
//
//            chunk_columns             b, packed: strips of two vectors, row after row
//          +---+---+---+---+
//  kUnit   |   |   |   |   |           a, read where it is or, if its rows are not consecutive, packed as panels of
//  rows    +---+---+---+---+           kPanel rows, column after column
//
#ifndef PLIMSOLL_KERNELS_PRODUCT_ONCE
#define PLIMSOLL_KERNELS_PRODUCT_ONCE
namespace plimsoll::kernels {
namespace {

constexpr int64_t kUnit = 96;  // rows of a that stay in the second-level cache

}  // namespace
}  // namespace plimsoll::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {

int64_t widest_strip() { return 2 * static_cast<int64_t>(hn::Lanes(FloatTag())); }

// The last vector may be a part of one.
template <int kVectors, class Access>
struct Columns {
  Access access;
  HWY_INLINE Floats load(FloatTag d, const float* from, int v) const {
    return v + 1 < kVectors ? hn::LoadU(d, from) : access.load(d, from);
  }
  HWY_INLINE void store(FloatTag d, Floats x, float* to, int v) const {
    if (v + 1 < kVectors)
      hn::StoreU(x, d, to);
    else
      access.store(d, x, to);
  }
};

template <int kRows, int kVectors, class Access>
HWY_INLINE void multiply(const ProductPiece& p, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                         const float* bias, float* HWY_RESTRICT c, Columns<kVectors, Access> columns) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Floats sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = p.adds ? columns.load(d, c + r * p.c_stride + v * lanes, v) : hn::Zero(d);
      if (bias != nullptr) sum[r][v] = hn::Add(sum[r][v], columns.load(d, bias + v * lanes, v));
    }
  // The next rows of c, which may lie in no cache.
  for (int r = 0; r < kRows; ++r) hwy::Prefetch(c + (kRows + r) * p.c_stride);
  const float* from[kRows];
  for (int r = 0; r < kRows; ++r) from[r] = a + r * p.a_row_stride;
  int64_t step = 0;
#pragma GCC unroll 4
  for (int64_t k = 0; k < p.inner; ++k, step += p.a_column_stride, b += kVectors * lanes) {
    Floats right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const Floats left = hn::Set(d, from[r][step]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  if (p.activation != Activation::None)
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = activate(sum[r][v], p.activation);
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) columns.store(d, sum[r][v], c + r * p.c_stride + v * lanes, v);
}

// One strip of b, all rows of the piece.
template <int kVectors, class Access>
HWY_NOINLINE void multiply_strip(const ProductPiece& p, const float* b, const float* bias, float* c,
                                 Columns<kVectors, Access> columns) {
  const float* a = p.a;
  int64_t row = 0;
  for (; row + kPanel <= p.rows; row += kPanel, a += p.a_panel_stride, c += kPanel * p.c_stride)
    multiply<kPanel, kVectors>(p, a, b, bias, c, columns);
  switch (p.rows - row) {
    case 5:
      return multiply<5, kVectors>(p, a, b, bias, c, columns);
    case 4:
      return multiply<4, kVectors>(p, a, b, bias, c, columns);
    case 3:
      return multiply<3, kVectors>(p, a, b, bias, c, columns);
    case 2:
      return multiply<2, kVectors>(p, a, b, bias, c, columns);
    case 1:
      return multiply<1, kVectors>(p, a, b, bias, c, columns);
    default:
      return;
  }
}

// One row of a by columns of b, which is not packed; sums run in the same order as with packed columns. Many columns
// side by side make independent sums, and stretches of memory that are worth prefetching.
template <int kVectors, class Access>
HWY_INLINE void multiply_row(const ProductPiece& p, int64_t column, Columns<kVectors, Access> columns) {
  constexpr int64_t kAhead = 8;  // rows: too far apart for the processor's own prefetching
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT b = p.b + column;
  float* HWY_RESTRICT c = p.c + column;
  Floats sum[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    sum[v] = p.adds ? columns.load(d, c + v * lanes, v) : hn::Zero(d);
    if (p.bias != nullptr) sum[v] = hn::Add(sum[v], columns.load(d, p.bias + column + v * lanes, v));
  }
  for (int64_t k = 0; k < p.inner; ++k, b += p.b_row_stride) {
    const float* ahead = b + std::min(kAhead, p.inner - 1 - k) * p.b_row_stride;
    const Floats left = hn::Set(d, p.a[k * p.a_column_stride]);
    for (int v = 0; v < kVectors; ++v) {
      hwy::Prefetch(ahead + v * lanes);
      sum[v] = hn::MulAdd(left, columns.load(d, b + v * lanes, v), sum[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    if (p.activation != Activation::None) sum[v] = activate(sum[v], p.activation);
    columns.store(d, sum[v], c + v * lanes, v);
  }
}

void multiply_one_row(const ProductPiece& p) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t column = 0;
  for (; column + 8 * lanes <= p.columns; column += 8 * lanes) multiply_row(p, column, Columns<8, Whole>{});
  for (; column + 2 * lanes <= p.columns; column += 2 * lanes) multiply_row(p, column, Columns<2, Whole>{});
  if (column + lanes <= p.columns) {
    multiply_row(p, column, Columns<1, Whole>{});
    column += lanes;
  }
  if (column < p.columns) multiply_row(p, column, Columns<1, Part>{{p.columns - column}});
}

void multiply_piece(const ProductPiece& p) {
  if (p.b_row_stride != 0) return multiply_one_row(p);
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  for (int64_t j = 0; j < p.columns; j += 2 * lanes) {
    const int64_t left = p.columns - j;
    const float* b = p.b + j * p.inner;
    const float* bias = p.bias != nullptr ? p.bias + j : nullptr;
    float* c = p.c + j;
    if (left >= 2 * lanes)
      multiply_strip(p, b, bias, c, Columns<2, Whole>{});
    else if (left > lanes)
      multiply_strip(p, b, bias, c, Columns<2, Part>{{left - lanes}});
    else if (left == lanes)
      multiply_strip(p, b, bias, c, Columns<1, Whole>{});
    else
      multiply_strip(p, b, bias, c, Columns<1, Part>{{left}});
  }
}

void activate_run(float* numbers, int64_t count, Activation activation) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(activate(hn::LoadU(d, numbers + i), activation), d, numbers + i);
  if (i == count) return;
  const Part rest{count - i};
  rest.store(d, activate(rest.load(d, numbers + i), activation), numbers + i);
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(widest_strip);
HWY_EXPORT(multiply_piece);
HWY_EXPORT(activate_run);

using Four [[gnu::vector_size(16)]] = float;

Four load_four(const float* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

// to[k][i] = from[i][k] for four lines of four.
void transpose_four(const float* from, int64_t line_stride, float* to, int64_t width) {
  const Four a = load_four(from), b = load_four(from + line_stride);
  const Four c = load_four(from + 2 * line_stride), d = load_four(from + 3 * line_stride);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Four rows[] = {
      __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
      __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int64_t k = 0; k < 4; ++k) std::memcpy(to + k * width, &rows[k], sizeof rows[k]);
}

// Lines of numbers beside each other: to[k][i] = from[i][k], each row of `to` filled up with zeros.
struct Lines {
  const float* from;
  int64_t line_stride, depth_stride, lines, depth;

  // As one strip.
  void pack(float* to, int64_t width) const {
    int64_t done = 0;
    if (depth_stride == 1) {
      const int64_t whole_lines = lines / 4 * 4;
      done = depth / 4 * 4;
      for (int64_t k = 0; k < done; k += 4) {
        for (int64_t i = 0; i < whole_lines; i += 4)
          transpose_four(from + i * line_stride + k, line_stride, to + k * width + i, width);
        for (int64_t i = whole_lines; i < lines; ++i)
          for (int64_t j = k; j < k + 4; ++j) to[j * width + i] = from[i * line_stride + j];
      }
    }
    for (int64_t k = done; k < depth; ++k)
      for (int64_t i = 0; i < lines; ++i) to[k * width + i] = from[i * line_stride + k * depth_stride];
    if (lines < width)
      for (int64_t k = 0; k < depth; ++k) std::fill(to + k * width + lines, to + (k + 1) * width, 0.0F);
  }

  // Strips of `width` lines, one behind the other; the last is filled up, to `least` lines where that is enough.
  void pack_strips(float* to, int64_t width, int64_t least) const {
    int64_t first = 0;
    if (line_stride == 1 && width == kPanel) first = copy_strips<kPanel>(to);
    if (line_stride == 1 && width == 16) first = copy_strips<16>(to);
    for (; first < lines; first += width) {
      Lines strip = *this;
      strip.from += first * line_stride;
      strip.lines = std::min(width, lines - first);
      strip.pack(to + first * depth, strip.lines > least ? width : least);
    }
  }

 private:
  // Packs the whole strips where lines are consecutive; returns how many lines that are. Several strips go side by
  // side, so that each row is read as one stretch: rows are often a power of two apart and evict each other from the
  // cache.
  template <int64_t kWidth>
  int64_t copy_strips(float* to) const {
    constexpr int64_t kTogether = 8;
    constexpr int64_t kAhead = 8;  // rows: too far apart for the processor's own prefetching
    const int64_t whole = lines / kWidth;
    for (int64_t first = 0; first < whole; first += kTogether) {
      const int64_t strips = std::min(kTogether, whole - first);
      for (int64_t k = 0; k < depth; ++k) {
        const float* ahead = from + std::min(k + kAhead, depth - 1) * depth_stride;
        for (int64_t s = first; s < first + strips; ++s) {
          hwy::Prefetch(ahead + s * kWidth);
          std::memcpy(to + (s * depth + k) * kWidth, from + k * depth_stride + s * kWidth,
                      static_cast<size_t>(kWidth) * sizeof(float));
        }
      }
    }
    return whole * kWidth;
  }
};

}  // namespace

int64_t strip_width() { return HWY_DYNAMIC_DISPATCH(widest_strip)(); }
void multiply(const ProductPiece& piece) noexcept { HWY_DYNAMIC_DISPATCH(multiply_piece)(piece); }
void activate(float* numbers, int64_t count, Activation activation) noexcept {
  HWY_DYNAMIC_DISPATCH(activate_run)(numbers, count, activation);
}

Product::Product(const MatrixOrder& a, const MatrixOrder& b, int64_t c_stride, bool accumulate, Activation activation)
    : a_(a),
      b_(b),
      c_stride_(c_stride),
      accumulate_(accumulate),
      activation_(activation),
      strip_(strip_width()),
      slots_(thread_slots()) {
  constexpr int64_t kFewColumns = 256;             // packing a for so few costs more than it saves
  reads_b_ = a.rows == 1 && b.column_stride == 1;  // packing would touch each number of b as often as multiplying
  packs_a_ = a.column_stride != 1 && b.columns > kFewColumns && !reads_b_;
  // Each chunk packs the columns of b and the rows of a that it reads, so it should reuse them often. There are several
  // chunks a thread, so that a slow thread delays no other; first side by side, since chunks above each other pack the
  // same columns of b.
  const int64_t widest = packs_a_ ? 512 : 128;
  constexpr int64_t kFewestRows = 192;
  chunk_columns_ = std::min(round_up((b.columns + 2 * slots_ - 1) / (2 * slots_), strip_), widest);
  const int64_t across = std::max<int64_t>(1, (b.columns + chunk_columns_ - 1) / std::max<int64_t>(1, chunk_columns_));
  const int64_t down =
      std::clamp<int64_t>((4 * slots_ + across - 1) / across, 1, std::max<int64_t>(1, a.rows / kFewestRows));
  chunk_rows_ = round_up((a.rows + down - 1) / down, kPanel);
}

int64_t Product::slot_floats() const {
  const int64_t depth = std::min(a_.columns, kDepth);
  return round_up(depth * (chunk_columns_ + (packs_a_ ? kUnit : 0)), 16);
}

Bytes Product::workspace_bytes() const { return slots_ * slot_floats() * static_cast<Bytes>(sizeof(float)); }

void Product::run_chunk(const Operands& in, int64_t row, int64_t column, float* packed) const noexcept {
  const int64_t rows = std::min(chunk_rows_, a_.rows - row);
  const int64_t columns = std::min(chunk_columns_, b_.columns - column);
  float* packed_a = packed + chunk_columns_ * std::min(a_.columns, kDepth);
  for (int64_t k = 0; k < a_.columns; k += kDepth) {
    const int64_t depth = std::min(kDepth, a_.columns - k);
    const bool reads_b = reads_b_ && in.packed_columns == nullptr;
    if (in.packed_columns != nullptr) {
      in.packed_columns->pack(k, depth, column, columns, packed);
    } else if (!reads_b) {
      const Lines b{in.b + k * b_.row_stride + column * b_.column_stride, b_.column_stride, b_.row_stride, columns,
                    depth};
      b.pack_strips(packed, strip_, strip_ / 2);  // a last strip of one vector is packed as that
    }
    for (int64_t first = 0; first < rows; first += kUnit) {
      ProductPiece piece;
      piece.rows = std::min(kUnit, rows - first);
      piece.columns = columns;
      piece.inner = depth;
      piece.a = in.a + (row + first) * a_.row_stride + k * a_.column_stride;
      piece.a_row_stride = a_.row_stride;
      piece.a_column_stride = a_.column_stride;
      piece.a_panel_stride = kPanel * a_.row_stride;
      if (packs_a_) {
        const Lines a{piece.a, a_.row_stride, a_.column_stride, piece.rows, depth};
        a.pack_strips(packed_a, kPanel, kPanel);
        piece.a = packed_a;
        piece.a_row_stride = 1;
        piece.a_column_stride = kPanel;
        piece.a_panel_stride = kPanel * depth;
      }
      piece.b = reads_b ? in.b + k * b_.row_stride + column : packed;
      piece.b_row_stride = reads_b ? b_.row_stride : 0;
      piece.bias = k == 0 && in.bias != nullptr ? in.bias + column : nullptr;
      piece.c = in.c + (row + first) * c_stride_ + column;
      piece.c_stride = c_stride_;
      piece.adds = accumulate_ || k > 0;
      piece.activation = k + depth == a_.columns ? activation_ : Activation::None;
      multiply(piece);
    }
  }
}

void Product::run(const float* a, const float* b, const float* bias, float* c, void* workspace) const noexcept {
  float* const to = c;  // where clang-tidy sees that it is written through
  run_chunks({a, b, bias, to}, workspace);
}

void Product::run(const float* a, const PackedColumns& b, const float* bias, float* c, void* workspace) const noexcept {
  float* const to = c;  // as above
  run_chunks({a, nullptr, bias, to, &b}, workspace);
}

void Product::run_chunks(const Operands& in, void* workspace) const noexcept {
  const int64_t across = (b_.columns + chunk_columns_ - 1) / chunk_columns_;
  const int64_t chunks = across * ((a_.rows + chunk_rows_ - 1) / chunk_rows_);
  auto* packed = static_cast<float*>(workspace);
  constexpr double kAloneFlops = 1e6;  // less is not worth waking threads
  const bool is_small = 2.0 * static_cast<double>(a_.rows * b_.columns) * static_cast<double>(a_.columns) < kAloneFlops;
#pragma omp parallel for schedule(dynamic) num_threads(slots_) if (!is_small)
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    run_chunk(in, chunk / across * chunk_rows_, chunk % across * chunk_columns_,
              packed + omp_get_thread_num() * slot_floats());
}

}  // namespace plimsoll::kernels
#endif
