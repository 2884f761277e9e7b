// sin, cos, tan, sinh, cosh and their inverses, of every element.
#include <cmath>

#include "ops/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/trigonometry.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

HWY_INLINE auto within(Floats x, float limit) { return hn::Le(hn::Abs(x), number(limit)); }
HWY_INLINE auto between(Floats x, float low, float high) {
  return hn::And(hn::Ge(x, number(low)), hn::Le(x, number(high)));
}
constexpr float kManyTurns = 30000;  // beyond, the vector code no longer finds the place within a turn

#define FUNCTION(name, inside, vector)                                            \
  void name##_tile(const Tile& t) {                                               \
    map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR {                               \
      const FloatTag d;                                                           \
      return or_library(x, vector, inside, [](float v) { return std::name(v); }); \
    });                                                                           \
  }

FUNCTION(sin, within(x, kManyTurns), hn::Sin(d, x))
FUNCTION(cos, within(x, kManyTurns), hn::Cos(d, x))
FUNCTION(tan, within(x, kManyTurns), hn::Div(hn::Sin(d, x), hn::Cos(d, x)))
FUNCTION(asin, within(x, 1), hn::Asin(d, x))
FUNCTION(acos, within(x, 1), hn::Acos(d, x))
FUNCTION(atan, within(x, 1e30F), hn::Atan(d, x))
FUNCTION(sinh, within(x, 87), hn::Sinh(d, x))
FUNCTION(asinh, within(x, 1e18F), hn::Asinh(d, x))
FUNCTION(acosh, between(x, 1, 1e18F), hn::Acosh(d, x))
FUNCTION(atanh, within(x, 0.999F), hn::Atanh(d, x))
#undef FUNCTION

void cosh_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR {
    const Floats e = exp_of(hn::Abs(x));
    const Floats y = hn::Mul(number(0.5F), hn::Add(e, hn::Div(number(1), e)));
    return or_library(x, y, within(x, 87), [](float v) { return std::cosh(v); });
  });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(sin)
PLIMSOLL_TILE(cos)
PLIMSOLL_TILE(tan)
PLIMSOLL_TILE(asin)
PLIMSOLL_TILE(acos)
PLIMSOLL_TILE(atan)
PLIMSOLL_TILE(sinh)
PLIMSOLL_TILE(cosh)
PLIMSOLL_TILE(asinh)
PLIMSOLL_TILE(acosh)
PLIMSOLL_TILE(atanh)

// factor x^2 + offset
Tensor parabola(Tensor x, double factor, double offset) { return scale(square(x), factor, offset); }

void grad_sin(Backward& b) { b.give(0, mul(b.dy[0], cos(b.x[0]))); }
void grad_cos(Backward& b) { b.give(0, mul(scale(b.dy[0], -1), sin(b.x[0]))); }
void grad_tan(Backward& b) { b.give(0, mul(b.dy[0], parabola(b.y[0], 1, 1))); }
void grad_asin(Backward& b) { b.give(0, mul(b.dy[0], rsqrt(parabola(b.x[0], -1, 1)))); }
void grad_acos(Backward& b) { b.give(0, mul(scale(b.dy[0], -1), rsqrt(parabola(b.x[0], -1, 1)))); }
void grad_atan(Backward& b) { b.give(0, div(b.dy[0], parabola(b.x[0], 1, 1))); }
void grad_sinh(Backward& b) { b.give(0, mul(b.dy[0], cosh(b.x[0]))); }
void grad_cosh(Backward& b) { b.give(0, mul(b.dy[0], sinh(b.x[0]))); }
void grad_asinh(Backward& b) { b.give(0, mul(b.dy[0], rsqrt(parabola(b.x[0], 1, 1)))); }
void grad_acosh(Backward& b) { b.give(0, mul(b.dy[0], rsqrt(parabola(b.x[0], 1, -1)))); }
void grad_atanh(Backward& b) { b.give(0, div(b.dy[0], parabola(b.x[0], -1, 1))); }

#define OP(constant, name, onnx, low, high, wide_low, wide_high)                   \
  const Op constant = make_unary(#name, grad_##name, prepare_tile<tile_of_##name>, \
                                 unary_samples<name, low, high, wide_low, wide_high>, tile_of_##name, onnx);
OP(kSin, sin, "Sin", -30, 30, -50000, 50000)
OP(kCos, cos, "Cos", -30, 30, -50000, 50000)
OP(kTan, tan, "Tan", -10, 10, -80, 80)
OP(kAsin, asin, "Asin", -8, 8, -1, 1)
OP(kAcos, acos, "Acos", -8, 8, -1, 1)
OP(kAtan, atan, "Atan", -30, 30, -1000, 1000)
OP(kSinh, sinh, "Sinh", -20, 20, -88, 88)
OP(kCosh, cosh, "Cosh", -20, 20, -88, 88)
OP(kAsinh, asinh, "Asinh", -30, 30, -1000, 1000)
OP(kAcosh, acosh, "Acosh", 15, 40, 1, 1000)
OP(kAtanh, atanh, "Atanh", -8, 8, -1, 1)
#undef OP

}  // namespace

Tensor sin(Tensor x, Name name) { return apply(kSin, {x}, {}, name); }
Tensor cos(Tensor x, Name name) { return apply(kCos, {x}, {}, name); }
Tensor tan(Tensor x, Name name) { return apply(kTan, {x}, {}, name); }
Tensor asin(Tensor x, Name name) { return apply(kAsin, {x}, {}, name); }
Tensor acos(Tensor x, Name name) { return apply(kAcos, {x}, {}, name); }
Tensor atan(Tensor x, Name name) { return apply(kAtan, {x}, {}, name); }
Tensor sinh(Tensor x, Name name) { return apply(kSinh, {x}, {}, name); }
Tensor cosh(Tensor x, Name name) { return apply(kCosh, {x}, {}, name); }
Tensor asinh(Tensor x, Name name) { return apply(kAsinh, {x}, {}, name); }
Tensor acosh(Tensor x, Name name) { return apply(kAcosh, {x}, {}, name); }
Tensor atanh(Tensor x, Name name) { return apply(kAtanh, {x}, {}, name); }

OpList trigonometry_ops() {
  return {&kSin, &kCos, &kTan, &kAsin, &kAcos, &kAtan, &kSinh, &kCosh, &kAsinh, &kAcosh, &kAtanh};
}

}  // namespace plimsoll::ops
#endif
