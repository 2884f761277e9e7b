// Vector pieces that our own kernels share; compiled once for each target of Highway.
#if defined(PLIMSOLL_OPS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_VECTOR_MATH_INL_H_
#undef PLIMSOLL_OPS_VECTOR_MATH_INL_H_
#else
#define PLIMSOLL_OPS_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

// The first `count` (< one vector) numbers at `from`, then `otherwise`; reads nothing beyond.
HWY_INLINE Floats load_some(FloatTag d, const float* from, int64_t count, float otherwise = 0) {
  // Masked loads of floats read nothing beyond in AVX2 too; gathering them in memory first stalls what loads them.
#if HWY_MEM_OPS_MIGHT_FAULT && HWY_TARGET != HWY_AVX2
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  for (int64_t i = 0; i < static_cast<int64_t>(hn::Lanes(d)); ++i) buffer[i] = i < count ? from[i] : otherwise;
  return hn::Load(d, buffer);
#else
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), hn::Set(d, otherwise));
#endif
}

// In pieces of fixed size: a masked store takes tens of cycles on some processors.
HWY_INLINE void store_some(FloatTag d, Floats v, float* to, int64_t count) {
  constexpr size_t kLongestPieces = 16;  // what the pieces below could reach, however short the vector
  HWY_ALIGN float buffer[std::max(kLongestPieces, HWY_MAX_BYTES / sizeof(float))];
  hn::Store(v, d, buffer);
  int64_t done = 0;
  const auto copy = [&](auto size) {
    std::memcpy(to + done, buffer + done, size() * sizeof(float));
    done += static_cast<int64_t>(size());
  };
  while (count - done >= 8) copy(std::integral_constant<size_t, 8>());
  if ((count & 4) != 0) copy(std::integral_constant<size_t, 4>());
  if ((count & 2) != 0) copy(std::integral_constant<size_t, 2>());
  if ((count & 1) != 0) copy(std::integral_constant<size_t, 1>());
}

// How a loop over `count` floats reads and writes: whole vectors, then what is left.
struct Whole {
  HWY_INLINE Floats load(FloatTag d, const float* from) const { return hn::LoadU(d, from); }
  HWY_INLINE void store(FloatTag d, Floats v, float* to) const { hn::StoreU(v, d, to); }
  HWY_INLINE Floats keep(FloatTag, Floats v) const { return v; }
};
struct Part {
  int64_t count;
  HWY_INLINE Floats load(FloatTag d, const float* from) const { return load_some(d, from, count); }
  HWY_INLINE void store(FloatTag d, Floats v, float* to) const { store_some(d, v, to, count); }
  // Zero in the lanes beyond.
  HWY_INLINE Floats keep(FloatTag d, Floats v) const {
    return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), v);
  }
};

// Calls step(i, Whole or Part) for each vector of [0, count).
template <class Step>
HWY_INLINE void for_vectors(int64_t count, const Step& step) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) step(i, Whole{});
  if (i < count) step(i, Part{count - i});
}

// x * factor, held within +-limit; NaN stays NaN.
HWY_INLINE Floats clipped(FloatTag d, Floats x, float factor, float limit) {
  return hn::Min(hn::Set(d, limit), hn::Max(hn::Set(d, -limit), hn::Mul(x, hn::Set(d, factor))));
}

// exp(x) for x <= 88, within 2 ulp; below -87 the result is a tiny normal number, NaN stays NaN.
HWY_INLINE Floats fast_exp(FloatTag d, Floats x) {
  const hn::RebindToSigned<FloatTag> di;
  x = hn::Max(hn::Set(d, -87.0F), x);  // in this order a NaN survives
  const Floats n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504F)));
  Floats r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  Floats p = hn::Set(d, 1.9875691500e-4F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

HWY_INLINE float max_of(const float* x, int64_t count) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Floats a = hn::Set(d, -INFINITY);
  Floats b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + lanes));
  }
  for (; i + lanes <= count; i += lanes) a = hn::Max(a, hn::LoadU(d, x + i));
  if (i < count) a = hn::Max(a, load_some(d, x + i, count - i, -INFINITY));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

// Sum of exp(x - shift).
HWY_INLINE float sum_exp(const float* x, int64_t count, float shift) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Floats s = hn::Set(d, shift);
  Floats a = hn::Zero(d);
  Floats b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Add(a, fast_exp(d, hn::Sub(hn::LoadU(d, x + i), s)));
    b = hn::Add(b, fast_exp(d, hn::Sub(hn::LoadU(d, x + i + lanes), s)));
  }
  for (; i < count; i += lanes) {
    if (i + lanes <= count) {
      a = hn::Add(a, fast_exp(d, hn::Sub(hn::LoadU(d, x + i), s)));
    } else {
      const Floats e = fast_exp(d, hn::Sub(load_some(d, x + i, count - i), s));
      a = hn::Add(a, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count - i)), e));
    }
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

HWY_INLINE float log_sum_exp(const float* x, int64_t count) {
  const float top = max_of(x, count);
  return top + std::log(sum_exp(x, count, top));
}

// Rows of at most this many vectors are held in registers from the first read to the last write.
constexpr int kShortVectors = 4;

// e = exp(x - top), zero beyond the end, and its sum; `count` fills the last of the vectors at least in part.
template <int kVectors>
struct ShortRow {
  Floats e[kVectors];
  float top, sum;

  HWY_INLINE ShortRow(const float* x, int64_t count) {
    const FloatTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t rest = count - (kVectors - 1) * lanes;
    const auto used = hn::FirstN(d, static_cast<size_t>(rest));
    for (int v = 0; v + 1 < kVectors; ++v) e[v] = hn::LoadU(d, x + v * lanes);
    Floats& last = e[kVectors - 1];
    last = rest == lanes ? hn::LoadU(d, x + count - lanes) : load_some(d, x + count - rest, rest, -INFINITY);
    Floats most = e[0];
    for (int v = 1; v < kVectors; ++v) most = hn::Max(most, e[v]);
    most = hn::MaxOfLanes(d, most);
    for (int v = 0; v < kVectors; ++v) e[v] = fast_exp(d, hn::Sub(e[v], most));
    last = hn::IfThenElseZero(used, last);
    Floats total = e[0];
    for (int v = 1; v < kVectors; ++v) total = hn::Add(total, e[v]);
    top = hn::GetLane(most);
    sum = hn::GetLane(hn::SumOfLanes(d, total));
  }

  // y = factor e
  HWY_INLINE void store(Floats factor, float* y, int64_t count) const {
    const FloatTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t rest = count - (kVectors - 1) * lanes;
    for (int v = 0; v + 1 < kVectors; ++v) hn::StoreU(hn::Mul(e[v], factor), d, y + v * lanes);
    const Floats last = hn::Mul(e[kVectors - 1], factor);
    if (rest == lanes)
      hn::StoreU(last, d, y + count - lanes);
    else
      store_some(d, last, y + count - rest, rest);
  }
};

// Calls f with the number of vectors that a row takes, as a constant; zero for a row that is not short.
template <class Function>
HWY_INLINE auto with_short_vectors(int64_t count, const Function& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  switch (count > kShortVectors * lanes ? 0 : (count + lanes - 1) / lanes) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    case 4:
      return f(std::integral_constant<int, 4>());
    default:
      return f(std::integral_constant<int, 0>());
  }
}

}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
