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

#include <hwy/cache_control.h>
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

// x held above or below a limit; NaN stays NaN, which Max and Min promise on x86 alone, and only in this order.
HWY_INLINE Floats at_least(Floats limit, Floats x) {
#if HWY_TARGET <= HWY_SSSE3
  return hn::Max(limit, x);
#else
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
#endif
}
HWY_INLINE Floats at_most(Floats limit, Floats x) {
#if HWY_TARGET <= HWY_SSSE3
  return hn::Min(limit, x);
#else
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
#endif
}

// exp(x), or exp(x) - 1 that is as exact near zero, for x from -88 to 88; within 1.1 ulp, NaN stays NaN. Splits x into
// n ln 2 + r; the polynomial, our own fit, is (e^r - 1) / r.
template <bool kMinusOne>
HWY_INLINE Floats exp_within(FloatTag d, Floats x) {
  const hn::RebindToSigned<FloatTag> di;
  // Numbers of this size have no fraction, and n + 127, an exponent's bits, in their lowest bits.
  const Floats magic = hn::Set(d, 12582912.0F + 127);
  const Floats shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const Floats n = hn::Sub(shifted, magic);
  const Floats power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  Floats r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  Floats p = hn::Set(d, 0.00138436066F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00837419562F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416680047F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166664308F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.499999942F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  return hn::MulAdd(p, hn::Mul(r, power), kMinusOne ? hn::Sub(power, hn::Set(d, 1.0F)) : power);
}

// exp(x) for x <= 88, within 1.1 ulp; zero below the normal floats, NaN stays NaN.
HWY_INLINE Floats fast_exp(FloatTag d, Floats x) { return exp_within<false>(d, at_least(hn::Set(d, -88.0F), x)); }

HWY_INLINE float max_of(const float* x, int64_t count) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Floats a = hn::Set(d, -INFINITY);
  Floats b = a;
  Floats c = a;
  Floats e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + lanes));
    c = hn::Max(c, hn::LoadU(d, x + i + 2 * lanes));
    e = hn::Max(e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = hn::Max(a, hn::LoadU(d, x + i));
  if (i < count) b = hn::Max(b, load_some(d, x + i, count - i, -INFINITY));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
}

// Sum of exp(x - shift).
HWY_INLINE float sum_exp(const float* x, int64_t count, float shift) {
  const FloatTag d;
  const Floats s = hn::Set(d, shift);
  Floats sum = hn::Zero(d);
  for_vectors(count, [&](int64_t i, auto part)
                         HWY_ATTR { sum = hn::Add(sum, part.keep(d, fast_exp(d, hn::Sub(part.load(d, x + i), s)))); });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE float log_sum_exp(const float* x, int64_t count) {
  const float top = max_of(x, count);
  return top + std::log(sum_exp(x, count, top));
}

// y = factor * softmax(x); y may be x. Fetches what lies behind x, the next row as a rule: exponentials take longer
// than memory.
HWY_INLINE void scaled_softmax(const float* x, float* y, int64_t count, float factor) {
  const FloatTag d;
  const Floats top = hn::Set(d, max_of(x, count));
  Floats sum = hn::Zero(d);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    hwy::Prefetch(x + count + i);
    const Floats e = fast_exp(d, hn::Sub(part.load(d, x + i), top));
    part.store(d, e, y + i);
    sum = hn::Add(sum, part.keep(d, e));
  });
  const Floats scale = hn::Set(d, factor / hn::GetLane(hn::SumOfLanes(d, sum)));
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR { part.store(d, hn::Mul(part.load(d, y + i), scale), y + i); });
}

}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
