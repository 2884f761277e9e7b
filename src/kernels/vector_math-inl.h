// Vector pieces that our own kernels share; compiled once for each target of Highway.
#if defined(PLIMSOLL_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_VECTOR_MATH_INL_H_
#undef PLIMSOLL_KERNELS_VECTOR_MATH_INL_H_
#else
#define PLIMSOLL_KERNELS_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

// The first `count` (< one vector) numbers at `from`, then `otherwise`; reads nothing beyond.
HWY_INLINE Floats load_some(FloatTag d, const float* from, int64_t count, float otherwise = 0) {
  // Masked loads read nothing beyond, also with AVX2; copying the floats to the stack first would stall the load after
  // it.
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
  constexpr size_t kLongestPieces = 16;  // the most floats that the pieces below can store
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

// x * factor, held within +-limit; NaN stays NaN.
HWY_INLINE Floats clipped(FloatTag d, Floats x, float factor, float limit) {
  return at_most(hn::Set(d, limit), at_least(hn::Set(d, -limit), hn::Mul(x, hn::Set(d, factor))));
}
// gradient + coupled x weight; without coupled decay the very bits of the gradient.
HWY_INLINE Floats decayed(FloatTag d, Floats gradient, Floats weight, float coupled) {
  return coupled == 0 ? gradient : hn::MulAdd(hn::Set(d, coupled), weight, gradient);
}

// Adding n to this number rounds n to an integer and leaves n + 127, the bits of the exponent of 2^n, in the lowest
// bits.
constexpr float kPowerShift = 12582912.0F + 127;
HWY_INLINE Floats exponent_in(FloatTag d, Floats shifted) { return hn::Sub(shifted, hn::Set(d, kPowerShift)); }
HWY_INLINE Floats power_in(FloatTag d, Floats shifted) {
  const hn::RebindToSigned<FloatTag> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
}

// exp(x), or exp(x) - 1 that is as exact near zero, for x from -88 to 88; within 1.1 ulp, NaN stays NaN. Splits x into
// n ln 2 + r; the polynomial, our own fit, is (e^r - 1) / r.
template <bool kMinusOne>
HWY_INLINE Floats exp_within(FloatTag d, Floats x) {
  const Floats shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), hn::Set(d, kPowerShift));
  const Floats n = exponent_in(d, shifted);
  const Floats power = power_in(d, shifted);
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

// Calls step(i, how many rows) for rows of [first, last), several at once while there are as many.
template <class Step>
HWY_INLINE void for_row_groups(int64_t first, int64_t last, const Step& step) {
  constexpr int kTogether = 2;
  int64_t i = first;
  for (; i + kTogether <= last; i += kTogether) step(i, std::integral_constant<int, kTogether>());
  for (; i < last; ++i) step(i, std::integral_constant<int, 1>());
}

// Sums of exp(x - shift) of kRows rows that follow each other. Side by side, because one exponential alone is a long
// chain of operations that wait for each other; a row's bits do not depend on its neighbours. Fetches the rows behind:
// the exponentials take longer than memory.
template <int kRows>
HWY_INLINE void sum_exp_rows(const float* x, int64_t count, const float* shifts, float* sums) {
  const FloatTag d;
  Floats sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    for (int r = 0; r < kRows; ++r) {
      hwy::Prefetch(x + (kRows + r) * count + i);
      const Floats e = fast_exp(d, hn::Sub(part.load(d, x + r * count + i), hn::Set(d, shifts[r])));
      sum[r] = hn::Add(sum[r], part.keep(d, e));
    }
  });
  for (int r = 0; r < kRows; ++r) sums[r] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
}

HWY_INLINE float sum_exp(const float* x, int64_t count, float shift) {
  float sum;
  sum_exp_rows<1>(x, count, &shift, &sum);
  return sum;
}

template <int kRows>
HWY_INLINE void log_sum_exp_rows(const float* x, int64_t count, float* results) {
  float tops[kRows];
  for (int r = 0; r < kRows; ++r) tops[r] = max_of(x + r * count, count);
  sum_exp_rows<kRows>(x, count, tops, results);
  for (int r = 0; r < kRows; ++r) results[r] = tops[r] + std::log(results[r]);
}

HWY_INLINE float log_sum_exp(const float* x, int64_t count) {
  float result;
  log_sum_exp_rows<1>(x, count, &result);
  return result;
}

// y = factor * softmax(x) for each of the rows; y may be x. Rows that go past the caches are whole vectors, aligned,
// and short enough to be held until their sum is known.
constexpr int64_t kLongestStreamed = 2048;
template <int kRows>
HWY_INLINE void softmax_rows_scaled(const float* x, float* y, int64_t count, const float* factors,
                                    bool streams = false) {
  const FloatTag d;
  HWY_ALIGN float held[kRows * kLongestStreamed];
  float* exps = streams ? held : y;
  Floats top[kRows], sum[kRows], scale[kRows];
  for (int r = 0; r < kRows; ++r) {
    top[r] = hn::Set(d, max_of(x + r * count, count));
    sum[r] = hn::Zero(d);
  }
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    for (int r = 0; r < kRows; ++r) {
      hwy::Prefetch(x + (kRows + r) * count + i);
      const Floats e = fast_exp(d, hn::Sub(part.load(d, x + r * count + i), top[r]));
      part.store(d, e, exps + r * count + i);
      sum[r] = hn::Add(sum[r], part.keep(d, e));
    }
  });
  for (int r = 0; r < kRows; ++r) scale[r] = hn::Set(d, factors[r] / hn::GetLane(hn::SumOfLanes(d, sum[r])));
  if (streams) {
    for (int r = 0; r < kRows; ++r)
      for (int64_t i = r * count; i < (r + 1) * count; i += static_cast<int64_t>(hn::Lanes(d)))
        hn::Stream(hn::Mul(hn::Load(d, held + i), scale[r]), d, y + i);
    return;
  }
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    for (int r = 0; r < kRows; ++r) {
      float* at = y + r * count + i;
      part.store(d, hn::Mul(part.load(d, at), scale[r]), at);
    }
  });
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
