// Rows too short to fill vectors: as many of them as a vector has lanes are taken at once, transposed, so that every
// lane holds a row of its own and nothing is ever summed across lanes. A row's bits do not depend on its neighbours.
// Included once for each target.
#if defined(PLIMSOLL_KERNELS_SHORT_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_SHORT_ROWS_INL_H
#undef PLIMSOLL_KERNELS_SHORT_ROWS_INL_H
#else
#define PLIMSOLL_KERNELS_SHORT_ROWS_INL_H
#endif

#include <algorithm>

#include "kernels/tile_math-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

constexpr int64_t kShortRow = 32;  // elements, at most

// Up to one vector of rows: column j is the vector at floats + j * lanes.
struct ShortRows {
  HWY_ALIGN float floats[kShortRow * hn::MaxLanes(FloatTag())];
  HWY_ALIGN float top[hn::MaxLanes(FloatTag())];
  HWY_ALIGN float sum[hn::MaxLanes(FloatTag())];

  static int64_t lanes() { return static_cast<int64_t>(hn::Lanes(FloatTag())); }
  HWY_INLINE float* column(int64_t j) { return floats + j * lanes(); }

  // Rows beyond the last become zero.
  HWY_INLINE void read(const float* from, int64_t rows, int64_t count) {
    if (rows >= lanes() && count >= 4) {
      transpose_from(from, count, count);
    } else {
      HWY_ALIGN float padded[kShortRow * hn::MaxLanes(FloatTag())] = {};
      for (int64_t i = 0; i < std::min(rows, lanes()); ++i)
        std::copy_n(from + i * count, count, padded + i * kShortRow);
      transpose_from(padded, kShortRow, count);
    }
  }

  // f(column) of every element.
  template <class Function>
  HWY_INLINE void write(float* to, int64_t rows, int64_t count, const Function& f) {
    if (rows >= lanes() && count >= 4) {
      transpose_to(to, count, count, f);
    } else {
      HWY_ALIGN float padded[kShortRow * hn::MaxLanes(FloatTag())];
      transpose_to(padded, kShortRow, count, f);
      for (int64_t i = 0; i < std::min(rows, lanes()); ++i) std::copy_n(padded + i * kShortRow, count, to + i * count);
    }
  }

 private:
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
  void transpose_from(const float* from, int64_t stride, int64_t count) {
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = 0; i < lanes(); ++i) column(j)[i] = from[i * stride + j];
  }
  template <class Function>
  void transpose_to(float* to, int64_t stride, int64_t count, const Function& f) {
    const FloatTag d;
    for (int64_t j = 0; j < count; ++j) {
      hn::Store(f(hn::Load(d, column(j))), d, column(j));
      for (int64_t i = 0; i < lanes(); ++i) to[i * stride + j] = column(j)[i];
    }
  }
#else
  // Block b of the vector is four floats of row 4 b.
  template <class D>
  static HWY_INLINE hn::Vec<D> load_blocks(D d, const float* from, int64_t stride) {
    if constexpr (hn::MaxLanes(D()) == 4) {
      return hn::LoadU(d, from);
    } else {
      const hn::Half<D> half;
      const auto low = load_blocks(half, from, stride);
      return hn::Combine(d, load_blocks(half, from + static_cast<int64_t>(hn::Lanes(half)) * stride, stride), low);
    }
  }
  template <class D>
  static HWY_INLINE void store_blocks(D d, hn::Vec<D> v, float* to, int64_t stride) {
    if constexpr (hn::MaxLanes(D()) == 4) {
      hn::StoreU(v, d, to);
    } else {
      const hn::Half<D> half;
      store_blocks(half, hn::LowerHalf(half, v), to, stride);
      store_blocks(half, hn::UpperHalf(half, v), to + static_cast<int64_t>(hn::Lanes(half)) * stride, stride);
    }
  }
  // Every block of four by four.
  static HWY_INLINE void transpose(Floats& a, Floats& b, Floats& c, Floats& e) {
    const FloatTag d;
    const Floats ac = hn::InterleaveLower(d, a, c);
    const Floats be = hn::InterleaveLower(d, b, e);
    const Floats ac_upper = hn::InterleaveUpper(d, a, c);
    const Floats be_upper = hn::InterleaveUpper(d, b, e);
    a = hn::InterleaveLower(d, ac, be);
    b = hn::InterleaveUpper(d, ac, be);
    c = hn::InterleaveLower(d, ac_upper, be_upper);
    e = hn::InterleaveUpper(d, ac_upper, be_upper);
  }

  // Four columns at a time; the last four may overlap those before.
  template <class Step>
  static HWY_INLINE void for_fours(int64_t count, const Step& step) {
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) step(j);
    if (j < count) step(std::max<int64_t>(0, count - 4));
  }
  HWY_INLINE void transpose_from(const float* from, int64_t stride, int64_t count) {
    const FloatTag d;
    for_fours(count, [&](int64_t j) HWY_ATTR {
      Floats a = load_blocks(d, from + j, stride);
      Floats b = load_blocks(d, from + j + stride, stride);
      Floats c = load_blocks(d, from + j + 2 * stride, stride);
      Floats e = load_blocks(d, from + j + 3 * stride, stride);
      transpose(a, b, c, e);
      hn::Store(a, d, column(j));
      hn::Store(b, d, column(j + 1));
      hn::Store(c, d, column(j + 2));
      hn::Store(e, d, column(j + 3));
    });
  }
  template <class Function>
  HWY_INLINE void transpose_to(float* to, int64_t stride, int64_t count, const Function& f) {
    const FloatTag d;
    for_fours(count, [&](int64_t j) HWY_ATTR {
      Floats a = f(hn::Load(d, column(j)));
      Floats b = f(hn::Load(d, column(j + 1)));
      Floats c = f(hn::Load(d, column(j + 2)));
      Floats e = f(hn::Load(d, column(j + 3)));
      transpose(a, b, c, e);
      store_blocks(d, a, to + j, stride);
      store_blocks(d, b, to + j + stride, stride);
      store_blocks(d, c, to + j + 2 * stride, stride);
      store_blocks(d, e, to + j + 3 * stride, stride);
    });
  }
#endif
};

HWY_INLINE void find_top(ShortRows& rows, int64_t count) {
  const FloatTag d;
  Floats top = hn::Load(d, rows.column(0));
  for (int64_t j = 1; j < count; ++j) top = hn::Max(top, hn::Load(d, rows.column(j)));
  hn::Store(top, d, rows.top);
}

// The sum of exp(x - top); with kKeep these exponentials take the place of x.
template <bool kKeep>
HWY_INLINE void sum_exps(ShortRows& rows, int64_t count) {
  const FloatTag d;
  const Floats top = hn::Load(d, rows.top);
  Floats sum = hn::Zero(d);
  for (int64_t j = 0; j < count; ++j) {
    const Floats e = fast_exp(d, hn::Sub(hn::Load(d, rows.column(j)), top));
    if (kKeep) hn::Store(e, d, rows.column(j));
    sum = hn::Add(sum, e);
  }
  hn::Store(sum, d, rows.sum);
}

HWY_INLINE Floats log_sum_exp(const ShortRows& rows) {
  const FloatTag d;
  return hn::Add(hn::Load(d, rows.top), log_of(hn::Load(d, rows.sum)));
}

// Reads the rows [first, last) of x, takes their tops and the sums of their exponentials, and calls finish(group, first
// row, rows from there on). Several groups go through each step together: in one group every operation waits for the
// top and then for the sum, so the others fill the gaps.
template <bool kKeep, class Finish>
HWY_INLINE void for_short_rows(const float* x, int64_t count, int64_t first, int64_t last, const Finish& finish) {
  constexpr int64_t kGroups = 4;
  const int64_t lanes = ShortRows::lanes();
  ShortRows groups[kGroups];
  for (int64_t i = first; i < last; i += kGroups * lanes) {
    const int64_t used = std::min(kGroups, (last - i + lanes - 1) / lanes);
    for (int64_t g = 0; g < used; ++g) {
      const int64_t at = i + g * lanes;
      groups[g].read(x + at * count, last - at, count);
      find_top(groups[g], count);
    }
    for (int64_t g = 0; g < used; ++g) sum_exps<kKeep>(groups[g], count);
    for (int64_t g = 0; g < used; ++g) finish(groups[g], i + g * lanes, last - i - g * lanes);
  }
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
