// Functions of vectors that several element-wise operators share. A NaN stays a NaN in all of them. Included once for
// each target.
#if defined(PLIMSOLL_TILE_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_TILE_MATH_INL_H
#undef PLIMSOLL_TILE_MATH_INL_H
#else
#define PLIMSOLL_TILE_MATH_INL_H
#endif

#include "hwy/contrib/math/math-inl.h"
#include "kernels/tile_map-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

HWY_INLINE Floats number(float value) { return hn::Set(FloatTag(), value); }

// c0 + c1 x + c2 x^2 + ... in pairs: the chain of dependent operations is half as long.
template <size_t N>
HWY_INLINE Floats polynomial(Floats x, const float (&c)[N]) {
  const Floats square = hn::Mul(x, x);
  size_t i = N % 2 == 1 ? N - 1 : N - 2;
  Floats sum = number(c[i]);
  if constexpr (N % 2 == 0) sum = hn::MulAdd(number(c[N - 1]), x, sum);
  for (; i >= 2; i -= 2) sum = hn::MulAdd(sum, square, hn::MulAdd(number(c[i - 1]), x, number(c[i - 2])));
  return sum;
}

// y; from a function of the C library in lanes that are not inside, where the vector code is not made for x.
template <class Mask, class Function>
HWY_INLINE Floats or_library(Floats x, Floats y, Mask inside, const Function& function) {
  const FloatTag d;
  if (HWY_LIKELY(hn::AllTrue(d, inside))) return y;
  HWY_ALIGN float xs[hn::MaxLanes(FloatTag())], ys[hn::MaxLanes(FloatTag())], good[hn::MaxLanes(FloatTag())];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  hn::Store(hn::IfThenElseZero(inside, number(1)), d, good);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    if (good[i] == 0) ys[i] = function(xs[i]);
  return hn::Load(d, ys);
}

HWY_INLINE Floats keep_nan(Floats x, Floats y) { return hn::IfThenElse(hn::IsNaN(x), x, y); }

// For x from -86.6 to 88.7. Splits x into q ln 2 + r; the polynomial, our own fit, is 2 e^r, since 2^128 is no float.
HWY_INLINE Floats exp_inside(Floats x) {
  constexpr float kTwiceExp[] = {2, 2, 0.99999982F, 0.33332837F, 0.083336465F, 0.016749835F, 0.0027673435F};
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> integers;
  const auto q = hn::NearestInt(hn::Mul(x, number(1.442695041F)));
  const Floats whole = hn::ConvertTo(d, q);
  Floats r = hn::NegMulAdd(whole, number(0.693145752F), x);
  r = hn::NegMulAdd(whole, number(1.42860677e-6F), r);
  const Floats power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(q, hn::Set(integers, 126))));
  return hn::Mul(polynomial(r, kTwiceExp), power);
}

// Results below exp(-86.6), about twice the smallest normal float, become zero.
HWY_INLINE Floats exp_of(Floats x) {
  const Floats low = number(-86.6F);
  const Floats y = exp_inside(hn::Max(hn::Min(x, number(89)), low));
  return keep_nan(x, hn::IfThenZeroElse(hn::Lt(x, low), y));
}

// log(0) is -infinity, log(infinity) is infinity, and that of a negative number NaN.
HWY_INLINE Floats log_of(Floats x) {
  const Floats inf = number(HUGE_VALF);
  Floats y = hn::Log(FloatTag(), x);
  y = hn::IfThenElse(hn::Eq(x, inf), inf, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(FloatTag())), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Lt(x, hn::Zero(FloatTag()))), hn::NaN(FloatTag()), y);
}

// From exp(-|x|), which can't overflow.
HWY_INLINE Floats sigmoid_of(Floats x) {
  const Floats e = fast_exp(FloatTag(), hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfNegativeThenElse(x, e, number(1)), hn::Add(number(1), e));
}

// (e^2x - 1) / (e^2x + 1), within 4 ulp near zero too.
HWY_INLINE Floats tanh_of(Floats x) {
  const Floats a = at_most(number(9.1F), at_least(number(-9.1F), x));
  const Floats e = exp_within<true>(FloatTag(), hn::Add(a, a));
  return hn::Div(e, hn::Add(e, number(2)));
}

// Both polynomials are our own fits: x P(x^2) below 1, and 1 - exp(R(x)) above. Absolute error below 1.2e-7.
HWY_INLINE Floats erf_of(Floats x) {
  constexpr float kBelow[] = {1.1283791F,    -0.37612626F,   0.112836F,     -0.026854446F,
                              0.0051895366F, -0.0008020852F, 7.8891535e-05F};
  constexpr float kAbove[] = {-0.0003537193F, -1.12704F,      -0.6382257F,   -0.10303737F,
                              0.021805318F,   -0.0029396075F, 0.00018557403F};
  const Floats a = hn::Min(hn::Abs(x), number(3.925F));
  const Floats below = hn::Mul(a, polynomial(hn::Mul(a, a), kBelow));
  const Floats above = hn::Sub(number(1), exp_inside(polynomial(a, kAbove)));
  return keep_nan(x, hn::CopySign(hn::IfThenElse(hn::Lt(a, number(1)), below, above), x));
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
