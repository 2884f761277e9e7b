#include "ops/product.h"

#include <algorithm>

#include "ops/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/product.cpp"
#include <hwy/foreach_target.h>

#include "ops/tile_math-inl.h"
#include "ops/vector_math-inl.h"

//  c is made in blocks: kDepth of the inner dimension at a time, kWidth columns, kHeight rows.
//  a, packed: panels of kPanel rows, column after column    b, packed: strips of two vectors, row after row
#ifndef PLIMSOLL_OPS_PRODUCT_ONCE
#define PLIMSOLL_OPS_PRODUCT_ONCE
namespace plimsoll {
namespace {

constexpr int64_t kPanel = 6;      // rows in registers at once: 6 x 2 vectors fill the sixteen of AVX2
constexpr int64_t kDepth = 256;    // a strip of b of this depth stays in the first cache
constexpr int64_t kWidth = 2048;   // columns of b packed at once
constexpr int64_t kHeight = 1152;  // rows of a packed at once
constexpr int64_t kUnitRows = 96;  // a thread's piece of work: its part of a stays in the second cache
constexpr int64_t kUnitStrips = 8;
constexpr int64_t kDirectWidth = 256;  // for fewer columns than this, packing a costs more than it saves
constexpr double kAloneFlops = 1e6;    // less work than this is not worth waking threads

// What one thread does between two barriers: a rows x columns piece of c over one stretch of the inner dimension.
struct Piece {
  int64_t rows, columns, inner;
  const float* a;  // at its first row
  int64_t a_row_stride, a_column_stride, a_panel_stride;
  const float* b;  // packed
  const float* bias;
  float* c;
  int64_t c_stride;
  bool adds;  // to what c holds
  Activation activation;
};

}  // namespace
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {
namespace {

int64_t strip_width() { return 2 * static_cast<int64_t>(hn::Lanes(FloatTag())); }

HWY_INLINE Floats activate(Floats x, Activation activation) {
  const Floats zero = hn::Zero(FloatTag());
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::Relu:
      return hn::Max(x, zero);
    case Activation::Relu6:
      return hn::Min(hn::Max(x, zero), number(6));
    case Activation::Sigmoid:
      return sigmoid_of(x);
    case Activation::Tanh:
      return tanh_of(x);
  }
  return x;
}

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
HWY_INLINE void multiply(const Piece& p, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, const float* bias,
                         float* HWY_RESTRICT c, Columns<kVectors, Access> columns) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Floats sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = p.adds ? columns.load(d, c + r * p.c_stride + v * lanes, v) : hn::Zero(d);
      if (bias != nullptr) sum[r][v] = hn::Add(sum[r][v], columns.load(d, bias + v * lanes, v));
    }
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
HWY_NOINLINE void multiply_strip(const Piece& p, const float* b, const float* bias, float* c,
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

void multiply_piece(const Piece& p) {
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

}  // namespace
}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(strip_width);
HWY_EXPORT(multiply_piece);

// to[k][i] = from[i][k], for `lines` lines of `depth` numbers, in rows of `width` that end with zeros.
void pack(const float* from, int64_t line_stride, int64_t depth_stride, int64_t lines, int64_t depth, int64_t width,
          float* to) {
  if (line_stride == 1) {
    for (int64_t k = 0; k < depth; ++k, from += depth_stride, to += width) {
      std::copy(from, from + lines, to);
      std::fill(to + lines, to + width, 0.0F);
    }
    return;
  }
  constexpr int64_t kAtOnce = 16;  // a cache line of each
  for (int64_t first = 0; first < depth; first += kAtOnce) {
    const int64_t last = std::min(depth, first + kAtOnce);
    for (int64_t i = 0; i < lines; ++i) {
      const float* line = from + i * line_stride;
      for (int64_t k = first; k < last; ++k) to[k * width + i] = line[k * depth_stride];
    }
    for (int64_t k = first; k < last; ++k) std::fill(to + k * width + lines, to + (k + 1) * width, 0.0F);
  }
}

// Floats of a packed strip or panel start are apart by whole cache lines.
int64_t padded(int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

Product::Product(const MatrixOrder& a, const MatrixOrder& b, int64_t c_stride, bool accumulate, Activation activation)
    : a_(a),
      b_(b),
      c_stride_(c_stride),
      accumulate_(accumulate),
      activation_(activation),
      packs_a_(b.columns > kDirectWidth),
      strip_(HWY_DYNAMIC_DISPATCH(strip_width)()) {}

Bytes Product::scratch_bytes() const {
  const int64_t depth = std::min(a_.columns, kDepth);
  const int64_t of_b = (std::min(b_.columns, kWidth) + strip_ - 1) / strip_ * strip_ * depth;
  const int64_t of_a = packs_a_ ? (std::min(a_.rows, kHeight) + kPanel - 1) / kPanel * kPanel * depth : 0;
  return (padded(of_b) + padded(of_a)) * static_cast<Bytes>(sizeof(float));
}

void Product::run(const float* a, const float* b, const float* bias, float* c, void* scratch) const noexcept {
  const int64_t rows = a_.rows, columns = b_.columns, inner = a_.columns;
  auto* packed_b = static_cast<float*>(scratch);
  float* packed_a =
      packed_b + padded((std::min(columns, kWidth) + strip_ - 1) / strip_ * strip_ * std::min(inner, kDepth));
  const bool is_small =
      2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(inner) < kAloneFlops;
#pragma omp parallel if (!is_small)
  for (int64_t column = 0; column < columns; column += kWidth) {
    const int64_t width = std::min(kWidth, columns - column);
    const int64_t strips = (width + strip_ - 1) / strip_;
    for (int64_t k = 0; k < inner; k += kDepth) {
      const int64_t depth = std::min(kDepth, inner - k);
#pragma omp for schedule(static)
      for (int64_t strip = 0; strip < strips; ++strip) {
        const int64_t first = strip * strip_;
        const int64_t used = std::min(strip_, width - first);
        // A last strip of one vector is packed as that.
        pack(b + k * b_.row_stride + (column + first) * b_.column_stride, b_.column_stride, b_.row_stride, used, depth,
             used > strip_ / 2 ? strip_ : strip_ / 2, packed_b + first * depth);
      }
      for (int64_t row = 0; row < rows; row += kHeight) {
        const int64_t height = std::min(kHeight, rows - row);
        if (packs_a_) {
          const int64_t panels = (height + kPanel - 1) / kPanel;
#pragma omp for schedule(static)
          for (int64_t panel = 0; panel < panels; ++panel)
            pack(a + (row + panel * kPanel) * a_.row_stride + k * a_.column_stride, a_.row_stride, a_.column_stride,
                 std::min(kPanel, height - panel * kPanel), depth, kPanel, packed_a + panel * kPanel * depth);
        }
        const int64_t row_units = (height + kUnitRows - 1) / kUnitRows;
        const int64_t strip_units = (strips + kUnitStrips - 1) / kUnitStrips;
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < row_units * strip_units; ++unit) {
          const int64_t first_row = unit / strip_units * kUnitRows;
          const int64_t first_column = unit % strip_units * kUnitStrips * strip_;
          Piece piece;
          piece.rows = std::min(kUnitRows, height - first_row);
          piece.columns = std::min(kUnitStrips * strip_, width - first_column);
          piece.inner = depth;
          if (packs_a_) {
            piece.a = packed_a + first_row * depth;
            piece.a_row_stride = 1;
            piece.a_column_stride = kPanel;
            piece.a_panel_stride = kPanel * depth;
          } else {
            piece.a = a + (row + first_row) * a_.row_stride + k * a_.column_stride;
            piece.a_row_stride = a_.row_stride;
            piece.a_column_stride = a_.column_stride;
            piece.a_panel_stride = kPanel * a_.row_stride;
          }
          piece.b = packed_b + first_column * depth;
          piece.bias = k == 0 && bias != nullptr ? bias + column + first_column : nullptr;
          piece.c = c + (row + first_row) * c_stride_ + column + first_column;
          piece.c_stride = c_stride_;
          piece.adds = accumulate_ || k > 0;
          piece.activation = k + depth == inner ? activation_ : Activation::None;
          HWY_DYNAMIC_DISPATCH(multiply_piece)(piece);
        }
      }
    }
  }
}

}  // namespace plimsoll
#endif
