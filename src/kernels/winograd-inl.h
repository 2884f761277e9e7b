// Winograd's change of basis, on vectors of channels. Included once for each target.
#ifndef PLIMSOLL_KERNELS_WINOGRAD_TILES_H
#define PLIMSOLL_KERNELS_WINOGRAD_TILES_H

#include <cstdint>

namespace plimsoll::kernels {

constexpr int64_t kSide = 6, kResult = 4, kPoints = kSide * kSide;

// Padding: points a power of two apart would compete for the same cache lines.
constexpr int64_t kApart = 16;
constexpr int64_t stride_of(int64_t numbers) { return numbers + kApart; }

// A tile of one block of channels of an image; what lies outside of the image is zero.
struct TileIn {
  const float* plane;
  int64_t height, width, row, column;
  float* to;  // the first point; the others `stride` apart
  int64_t stride;
};

}  // namespace plimsoll::kernels
#endif

#if defined(PLIMSOLL_KERNELS_WINOGRAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_WINOGRAD_INL_H
#undef PLIMSOLL_KERNELS_WINOGRAD_INL_H
#else
#define PLIMSOLL_KERNELS_WINOGRAD_INL_H
#endif

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

HWY_INLINE int64_t block_lanes() { return static_cast<int64_t>(hn::Lanes(FloatTag())); }

// One dimension of the change of basis, for polynomials at 0, +-1/root, +-root and infinity: with points that are each
// other's inverse the errors grow least. The numbers lie kFrom and kTo apart.
constexpr float kRoot = 1.41421356237F;

// Values at +-1/root and +-root from the even and the odd terms of the polynomials.
template <int kTo>
HWY_INLINE void store_pairs(Floats even, Floats odd, Floats far_even, Floats far_odd, Floats* to) {
  to[kTo] = hn::Add(even, odd);
  to[2 * kTo] = hn::Sub(even, odd);
  to[3 * kTo] = hn::Add(far_even, far_odd);
  to[4 * kTo] = hn::Sub(far_even, far_odd);
}

template <int kStep>
HWY_INLINE void change_image(const Floats* d, Floats* v) {
  const FloatTag tag;
  const Floats two = hn::Set(tag, 2.0F), half = hn::Set(tag, 0.5F), both = hn::Set(tag, 2.5F);
  const Floats d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep], d4 = d[4 * kStep];
  const Floats even = hn::NegMulAdd(two, d2, d4);
  const Floats odd = hn::Mul(hn::Set(tag, kRoot / 2), hn::NegMulAdd(two, d1, d3));
  const Floats far_even = hn::NegMulAdd(half, d2, d4);
  const Floats far_odd = hn::Mul(hn::Set(tag, kRoot), hn::NegMulAdd(half, d1, d3));
  v[0] = hn::Add(d[0], hn::NegMulAdd(both, d2, d4));
  store_pairs<kStep>(even, odd, far_even, far_odd, v);
  v[5 * kStep] = hn::Add(d1, hn::NegMulAdd(both, d3, d[5 * kStep]));
}

template <int kFrom, int kTo>
HWY_INLINE void change_kernel(const Floats* g, Floats* u) {
  const FloatTag tag;
  const Floats g0 = g[0], g1 = g[kFrom], g2 = g[2 * kFrom];
  const Floats even = hn::NegMulAdd(g0, hn::Set(tag, 2.0F / 3), hn::Mul(g2, hn::Set(tag, -1.0F / 3)));
  const Floats odd = hn::Mul(g1, hn::Set(tag, -kRoot / 3));
  const Floats far_even = hn::MulAdd(g0, hn::Set(tag, 1.0F / 6), hn::Mul(g2, hn::Set(tag, 1.0F / 3)));
  const Floats far_odd = hn::Mul(g1, hn::Set(tag, kRoot / 6));
  u[0] = g0;
  store_pairs<kTo>(even, odd, far_even, far_odd, u);
  u[5 * kTo] = g2;
}

template <int kFrom, int kTo>
HWY_INLINE void change_result(const Floats* m, Floats* y) {
  const FloatTag tag;
  const Floats m1 = m[kFrom], m2 = m[2 * kFrom], m3 = m[3 * kFrom], m4 = m[4 * kFrom];
  const Floats even = hn::Add(m1, m2), odd = hn::Sub(m1, m2), far_even = hn::Add(m3, m4), far_odd = hn::Sub(m3, m4);
  y[0] = hn::Add(hn::Add(m[0], even), far_even);
  y[kTo] = hn::MulAdd(hn::Set(tag, kRoot / 2), odd, hn::Mul(hn::Set(tag, kRoot), far_odd));
  y[2 * kTo] = hn::MulAdd(hn::Set(tag, 0.5F), even, hn::Mul(hn::Set(tag, 2.0F), far_even));
  y[3 * kTo] = hn::MulAdd(hn::Set(tag, kRoot / 4), odd, hn::MulAdd(hn::Set(tag, 2 * kRoot), far_odd, m[5 * kFrom]));
}

// The transpose of change_result, for the gradient of the result.
template <int kFrom, int kTo>
HWY_INLINE void change_gradient(const Floats* y, Floats* m) {
  const FloatTag tag;
  const Floats y0 = y[0], y1 = y[kFrom], y2 = y[2 * kFrom], y3 = y[3 * kFrom];
  const Floats even = hn::MulAdd(hn::Set(tag, 0.5F), y2, y0), far_even = hn::MulAdd(hn::Set(tag, 2.0F), y2, y0);
  const Floats odd = hn::MulAdd(hn::Set(tag, kRoot / 2), y1, hn::Mul(hn::Set(tag, kRoot / 4), y3));
  const Floats far_odd = hn::MulAdd(hn::Set(tag, kRoot), y1, hn::Mul(hn::Set(tag, 2 * kRoot), y3));
  m[0] = y0;
  store_pairs<kTo>(even, odd, far_even, far_odd, m);
  m[5 * kTo] = y3;
}

// The transpose of change_kernel, for the gradient of the filter.
template <int kFrom, int kTo>
HWY_INLINE void change_kernel_back(const Floats* u, Floats* g) {
  const FloatTag tag;
  const Floats u1 = u[kFrom], u2 = u[2 * kFrom], u3 = u[3 * kFrom], u4 = u[4 * kFrom];
  const Floats even = hn::Add(u1, u2), odd = hn::Sub(u2, u1), far_even = hn::Add(u3, u4), far_odd = hn::Sub(u3, u4);
  const Floats third = hn::Set(tag, 1.0F / 3);
  g[0] = hn::MulAdd(hn::Set(tag, 1.0F / 6), far_even, hn::NegMulAdd(hn::Set(tag, 2.0F / 3), even, u[0]));
  g[kTo] = hn::MulAdd(hn::Set(tag, kRoot / 3), odd, hn::Mul(hn::Set(tag, kRoot / 6), far_odd));
  g[2 * kTo] = hn::MulAdd(third, hn::Sub(far_even, even), u[5 * kFrom]);
}

HWY_INLINE void change_tile(const TileIn& t) {
  const FloatTag d;
  const int64_t block = block_lanes();
  Floats in[kPoints], half[kPoints];
  const bool is_inside = t.row >= 0 && t.column >= 0 && t.row + kSide <= t.height && t.column + kSide <= t.width;
  for (int64_t i = 0; i < kSide; ++i) {
    const int64_t row = t.row + i;
    const float* from = t.plane + (row * t.width + t.column) * block;
    for (int64_t j = 0; j < kSide; ++j) {
      const bool is_there = is_inside || (row >= 0 && row < t.height && t.column + j >= 0 && t.column + j < t.width);
      in[i * kSide + j] = is_there ? hn::LoadU(d, from + j * block) : hn::Zero(d);
    }
  }
  for (int64_t j = 0; j < kSide; ++j) change_image<kSide>(in + j, half + j);
  for (int64_t i = 0; i < kSide; ++i) {
    Floats out[kSide];
    change_image<1>(half + i * kSide, out);
    for (int64_t j = 0; j < kSide; ++j) hn::StoreU(out[j], d, t.to + (i * kSide + j) * t.stride);
  }
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
