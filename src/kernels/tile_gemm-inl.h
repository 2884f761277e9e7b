// A small matrix product for tiles that fit in cache: C (+)= A B, with A read through any strides (so also transposed)
// and B, C by rows. Compiled once for each target of Highway.
#if defined(PLIMSOLL_KERNELS_TILE_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_TILE_GEMM_INL_H_
#undef PLIMSOLL_KERNELS_TILE_GEMM_INL_H_
#else
#define PLIMSOLL_KERNELS_TILE_GEMM_INL_H_
#endif

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

struct TileA {
  const float* at;
  int64_t row_stride, column_stride;
};

// kRows x (kVectors vectors) of C at once in registers; 6 x 2 fills the sixteen of AVX2.
template <int kRows, int kVectors, class Access>
HWY_INLINE void multiply_panel(int64_t inner, const TileA& a, const float* HWY_RESTRICT b, int64_t b_stride,
                               float* HWY_RESTRICT c, int64_t c_stride, bool accumulate, Access access) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Floats sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = accumulate ? access.load(d, c + r * c_stride + v * lanes) : hn::Zero(d);
  const float* from[kRows];
  for (int r = 0; r < kRows; ++r) from[r] = a.at + r * a.row_stride;
  int64_t step = 0;
  for (int64_t k = 0; k < inner; ++k, step += a.column_stride, b += b_stride) {
    Floats right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = access.load(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const Floats left = hn::Set(d, from[r][step]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) access.store(d, sum[r][v], c + r * c_stride + v * lanes);
}

template <int kVectors, class Access>
HWY_INLINE void multiply_columns(int64_t rows, int64_t inner, TileA a, const float* b, int64_t b_stride, float* c,
                                 int64_t c_stride, bool accumulate, Access access) {
  const auto advance = [&](int64_t done) HWY_ATTR {
    a.at += done * a.row_stride;
    c += done * c_stride;
  };
  // Six by six, but eight rows are better as four and four.
  for (; rows >= 6 && rows != 8; rows -= 6, advance(6))
    multiply_panel<6, kVectors>(inner, a, b, b_stride, c, c_stride, accumulate, access);
  for (; rows >= 4; rows -= 4, advance(4))
    multiply_panel<4, kVectors>(inner, a, b, b_stride, c, c_stride, accumulate, access);
  for (; rows >= 1; --rows, advance(1))
    multiply_panel<1, kVectors>(inner, a, b, b_stride, c, c_stride, accumulate, access);
}

// C [rows x columns] (+)= A [rows x inner] B [inner x columns].
static HWY_NOINLINE void multiply_tiles(int64_t rows, int64_t columns, int64_t inner, const TileA& a, const float* b,
                                        int64_t b_stride, float* c, int64_t c_stride, bool accumulate) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t j = 0;
  for (; j + 2 * lanes <= columns; j += 2 * lanes)
    multiply_columns<2>(rows, inner, a, b + j, b_stride, c + j, c_stride, accumulate, Whole{});
  for (; j + lanes <= columns; j += lanes)
    multiply_columns<1>(rows, inner, a, b + j, b_stride, c + j, c_stride, accumulate, Whole{});
  if (j < columns) multiply_columns<1>(rows, inner, a, b + j, b_stride, c + j, c_stride, accumulate, Part{columns - j});
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
