// exp, log, expm1, log1p, sqrt, rsqrt, square, reciprocal, neg, abs, erf of every element; square, neg and abs of
// integers too.
#include <cmath>

#include "kernels/integer_map.h"
#include "ops/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/unary.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void exp_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR { return exp_of(x); });
}
void log_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR { return log_of(x); });
}
void expm1_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR {
    return or_library(x, hn::Expm1(FloatTag(), x), hn::Lt(x, number(88)), [](float v) { return std::expm1(v); });
  });
}
void log1p_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR {
    const auto inside = hn::And(hn::Gt(x, number(-0.9F)), hn::Lt(x, number(1e30F)));
    return or_library(x, hn::Log1p(FloatTag(), x), inside, [](float v) { return std::log1p(v); });
  });
}
void square_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Mul(x, x); });
}
void reciprocal_tile(const Tile& t) {
  const Floats numerator = hn::Set(FloatTag(), t.params[0]);
  map<1>(t, [=](Floats x) HWY_ATTR { return hn::Div(numerator, x); });
}
void sqrt_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Sqrt(x); });
}
void rsqrt_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Div(number(1), hn::Sqrt(x)); });
}
void neg_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Neg(x); });
}
void abs_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Abs(x); });
}
// dy, x: the sign of zero is zero.
void abs_grad_tile(const Tile& t) {
  map<2>(t, [](Floats dy, Floats x) HWY_ATTR {
    const Floats zero = hn::Zero(FloatTag());
    return hn::IfThenElse(hn::Lt(x, zero), hn::Neg(dy), hn::IfThenElseZero(hn::Gt(x, zero), dy));
  });
}
void erf_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR { return erf_of(x); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(exp)
PLIMSOLL_TILE(log)
PLIMSOLL_TILE(sqrt)
PLIMSOLL_TILE(rsqrt)
PLIMSOLL_TILE(neg)
PLIMSOLL_TILE(abs)
PLIMSOLL_TILE(abs_grad)
PLIMSOLL_TILE(erf)
PLIMSOLL_TILE(expm1)
PLIMSOLL_TILE(log1p)
PLIMSOLL_TILE(square)
PLIMSOLL_TILE(reciprocal, 1,
              [](const Attrs& attrs, float* params) { params[0] = static_cast<float>(attrs.f("numerator", 1)); })

// Of integers by themselves, of floats by tiles.
template <const TileOp* (*tile)(), class Function>
Prepared prepare_number(const Facts& facts) {
  if (!is_large_integer(facts.in[0].dtype)) return prepare_tile(facts, *tile());
  return {.kernel = with_integer(facts.in[0].dtype,
                                 [&](auto number) { return make_integer_map<decltype(number)>(facts, Function()); })};
}
struct Negate {
  template <class T>
  T operator()(T x) const {
    return wrapped_difference(T{0}, x);
  }
};
struct Magnitude {
  template <class T>
  T operator()(T x) const {
    return x < 0 ? wrapped_difference(T{0}, x) : x;
  }
};
struct Square {
  template <class T>
  T operator()(T x) const {
    return wrapped_product(x, x);
  }
};

Tensor abs_grad(Tensor dy, Tensor x);

void grad_exp(Backward& b) { b.give(0, mul(b.dy[0], b.y[0])); }
void grad_log(Backward& b) { b.give(0, div(b.dy[0], b.x[0])); }
void grad_sqrt(Backward& b) { b.give(0, div(scale(b.dy[0], 0.5), b.y[0])); }
void grad_rsqrt(Backward& b) {
  const Tensor y = b.y[0];
  b.give(0, mul(scale(b.dy[0], -0.5), mul(y, mul(y, y))));
}
void grad_expm1(Backward& b) { b.give(0, mul(b.dy[0], scale(b.y[0], 1, 1))); }
void grad_log1p(Backward& b) { b.give(0, div(b.dy[0], scale(b.x[0], 1, 1))); }
void grad_square(Backward& b) { b.give(0, mul(scale(b.dy[0], 2), b.x[0])); }
// -numerator / x^2, from the output alone.
void grad_reciprocal(Backward& b) {
  const double numerator = b.attrs.f("numerator", 1);
  if (numerator != 0) b.give(0, mul(scale(b.dy[0], -1 / numerator), square(b.y[0])));
}
void grad_neg(Backward& b) { b.give(0, neg(b.dy[0])); }
void grad_abs(Backward& b) { b.give(0, abs_grad(b.dy[0], b.x[0])); }
void grad_abs_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, abs_grad(b.dy[0], b.x[1]));
}
void grad_erf(Backward& b) {
  const Tensor x = b.x[0];
  constexpr double kSlope = 1.1283791670955126;  // 2 / sqrt(pi)
  b.give(0, mul(scale(b.dy[0], kSlope), exp(neg(mul(x, x)))));
}

const Op kExp =
    make_unary("exp", grad_exp, prepare_tile<tile_of_exp>, unary_samples<exp, -20, 20, -80, 80>, tile_of_exp, "Exp");
const Op kLog =
    make_unary("log", grad_log, prepare_tile<tile_of_log>, unary_samples<log, 5, 30, 0, 1000>, tile_of_log, "Log");
const Op kSqrt = make_unary("sqrt", grad_sqrt, prepare_tile<tile_of_sqrt>, unary_samples<sqrt, 5, 30, 0, 1000>,
                            tile_of_sqrt, "Sqrt");
const Op kRsqrt = make_unary("rsqrt", grad_rsqrt, prepare_tile<tile_of_rsqrt>, unary_samples<rsqrt, 5, 30, 0, 1000>,
                             tile_of_rsqrt, "");
const Op kNeg = make_unary("neg", grad_neg, prepare_number<tile_of_neg, Negate>, unary_samples<neg, -10, 10, -100, 100>,
                           tile_of_neg, "Neg", kNumbers);
const Op kAbs = make_unary("abs", grad_abs, prepare_number<tile_of_abs, Magnitude>,
                           unary_samples<abs, -20, -1, -100, 100>, tile_of_abs, "Abs", kNumbers);
const Op kErf =
    make_unary("erf", grad_erf, prepare_tile<tile_of_erf>, unary_samples<erf, -20, 20, -9, 9>, tile_of_erf, "Erf");
const Op kExpm1 = make_unary("expm1", grad_expm1, prepare_tile<tile_of_expm1>, unary_samples<expm1, -20, 20, -80, 80>,
                             tile_of_expm1, "");
const Op kLog1p = make_unary("log1p", grad_log1p, prepare_tile<tile_of_log1p>, unary_samples<log1p, -5, 30, 0, 1000>,
                             tile_of_log1p, "");
const Op kSquare = make_unary("square", grad_square, prepare_number<tile_of_square, Square>,
                              unary_samples<square, -20, 20, -100, 100>, tile_of_square, "", kNumbers);

void infer_reciprocal(Infer& n) {
  n.expect_finite("numerator", 1);
  infer_map(n);
}
std::vector<Sample> samples_reciprocal() {
  return {{"one",
           [](SampleBuilder& s) {
             return std::vector{reciprocal(s.input({Dim::batch(), 3, 5}, 0.5, 3))};
           }},
          {"number", [](SampleBuilder& s) {
             return std::vector{-3 / s.input({Dim::batch(), 13}, -4, -0.5)};
           }}};
}
const Op kReciprocal{.name = "reciprocal",
                     .storable = true,
                     .infer = infer_reciprocal,
                     .types = {kFloats},
                     .grad = grad_reciprocal,
                     .prepare = prepare_tile<tile_of_reciprocal>,
                     .samples = samples_reciprocal,
                     .traits = map_traits(0b1),
                     .tile = tile_of_reciprocal,
                     .onnx = "Reciprocal"};
const Op kAbsGrad{.name = "abs_grad",
                  .infer = infer_same,
                  .types = {kFloats},
                  .grad = grad_abs_grad,
                  .prepare = prepare_tile<tile_of_abs_grad>,
                  .traits = map_traits(0b11),
                  .tile = tile_of_abs_grad};

Tensor abs_grad(Tensor dy, Tensor x) { return apply(kAbsGrad, {dy, x}); }

}  // namespace

Tensor exp(Tensor x, Name name) { return apply(kExp, {x}, {}, name); }
Tensor log(Tensor x, Name name) { return apply(kLog, {x}, {}, name); }
Tensor sqrt(Tensor x, Name name) { return apply(kSqrt, {x}, {}, name); }
Tensor rsqrt(Tensor x, Name name) { return apply(kRsqrt, {x}, {}, name); }
Tensor neg(Tensor x, Name name) { return apply(kNeg, {x}, {}, name); }
Tensor abs(Tensor x, Name name) { return apply(kAbs, {x}, {}, name); }
Tensor erf(Tensor x, Name name) { return apply(kErf, {x}, {}, name); }

Tensor expm1(Tensor x, Name name) { return apply(kExpm1, {x}, {}, name); }
Tensor log1p(Tensor x, Name name) { return apply(kLog1p, {x}, {}, name); }
Tensor square(Tensor x, Name name) { return apply(kSquare, {x}, {}, name); }
Tensor reciprocal(Tensor x, double numerator, Name name) {
  return apply(kReciprocal, {x}, {{"numerator", numerator}}, name);
}

OpList unary_ops() {
  return {&kExp, &kLog, &kSqrt, &kRsqrt, &kNeg, &kAbs, &kErf, &kAbsGrad, &kExpm1, &kLog1p, &kSquare, &kReciprocal};
}

}  // namespace plimsoll::ops
#endif
