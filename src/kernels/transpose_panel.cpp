#include "kernels/transpose_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose_panel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLine = 16;  // elements of a cache line

void transpose_plainly(const PanelOf32& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  for (int64_t c = column; c < column + columns; ++c)
    for (int64_t r = row; r < row + rows; ++r) p.to[r * p.to_stride + c] = p.from[c * p.from_stride + r];
}

#if HWY_TARGET != HWY_SCALAR
using LaneTag = hn::CappedTag<uint32_t, 8>;
using Vector = hn::Vec<LaneTag>;

// Four elements of a row; with vectors of eight, beside them four of the fourth row below.
HWY_INLINE Vector load_pair(const uint32_t* from, int64_t stride) {
  const LaneTag d;
  if constexpr (hn::MaxLanes(d) == 8) {
    const hn::Half<LaneTag> half;
    return hn::Combine(d, hn::LoadU(half, from + 4 * stride), hn::LoadU(half, from));
  } else {
    return hn::LoadU(d, from);
  }
}

// Four elements from each of as many rows as a vector has lanes.
HWY_INLINE void transpose_four(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  const LaneTag d;
  const hn::Repartition<uint64_t, LaneTag> pairs;
  const Vector a = load_pair(from, from_stride);
  const Vector b = load_pair(from + from_stride, from_stride);
  const Vector c = load_pair(from + 2 * from_stride, from_stride);
  const Vector e = load_pair(from + 3 * from_stride, from_stride);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, to + 3 * to_stride);
}

// Whole cache lines are written, and what is read of each row lies together.
void transpose_lines(const PanelOf32& p, int64_t rows, int64_t columns) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(LaneTag()));
  int64_t c = 0;
  for (; c + kLine <= columns; c += kLine) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      // The rows of the next lines, a row at a time.
      for (int64_t k = 0; k < rows; k += kLine) hwy::Prefetch(p.from + (c + kLine + r / 4) * p.from_stride + k);
      for (int64_t i = c; i < c + kLine; i += lanes)
        transpose_four(p.from + i * p.from_stride + r, p.from_stride, p.to + r * p.to_stride + i, p.to_stride);
    }
    transpose_plainly(p, r, rows - r, c, kLine);
  }
  transpose_plainly(p, 0, rows, c, columns - c);
}
#endif

void transpose_in_vectors(const PanelOf32& p, int64_t rows, int64_t columns) {
#if HWY_TARGET == HWY_SCALAR
  transpose_plainly(p, 0, rows, 0, columns);
#else
  transpose_lines(p, rows, columns);
#endif
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {
HWY_EXPORT(transpose_in_vectors);
}

void transpose_panel(const PanelOf32& panel, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(transpose_in_vectors)(panel, rows, columns);
}

}  // namespace plimsoll::kernels
#endif
