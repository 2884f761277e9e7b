// exp, log, sqrt, rsqrt, neg, abs, erf of every element.
#include "ops/ops.h"
#include "ops/sample.h"

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

Tensor abs_grad(Tensor dy, Tensor x);

void grad_exp(Backward& b) { b.give(0, mul(b.dy[0], b.y[0])); }
void grad_log(Backward& b) { b.give(0, div(b.dy[0], b.x[0])); }
void grad_sqrt(Backward& b) { b.give(0, div(scale(b.dy[0], 0.5), b.y[0])); }
void grad_rsqrt(Backward& b) {
  const Tensor y = b.y[0];
  b.give(0, mul(scale(b.dy[0], -0.5), mul(y, mul(y, y))));
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

// One sample with gradient, and one over a wider range, in which the function is too steep for a numeric gradient.
template <Tensor (*function)(Tensor, Name), int low_tenths, int high_tenths, int wide_low, int wide_high>
std::vector<Sample> samples() {
  return {{"small",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 3, 5}, low_tenths / 10.0, high_tenths / 10.0), {})};
           }},
          {"wide",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 13}, wide_low, wide_high), {})};
           },
           1e-4, false}};
}

constexpr Op make_unary(std::string_view name, void (*grad)(Backward&), Prepared (*prepare)(const Facts&),
                        std::vector<Sample> (*examples)(), const TileOp* (*tile)(), std::string_view onnx) {
  return {.name = name,
          .infer = infer_map,
          .types = {kFloats},
          .grad = grad,
          .prepare = prepare,
          .samples = examples,
          .traits = map_traits(0b1),
          .tile = tile,
          .onnx = onnx};
}

const Op kExp =
    make_unary("exp", grad_exp, prepare_tile<tile_of_exp>, samples<exp, -20, 20, -80, 80>, tile_of_exp, "Exp");
const Op kLog =
    make_unary("log", grad_log, prepare_tile<tile_of_log>, samples<log, 5, 30, 0, 1000>, tile_of_log, "Log");
const Op kSqrt =
    make_unary("sqrt", grad_sqrt, prepare_tile<tile_of_sqrt>, samples<sqrt, 5, 30, 0, 1000>, tile_of_sqrt, "Sqrt");
const Op kRsqrt =
    make_unary("rsqrt", grad_rsqrt, prepare_tile<tile_of_rsqrt>, samples<rsqrt, 5, 30, 0, 1000>, tile_of_rsqrt, "");
const Op kNeg =
    make_unary("neg", grad_neg, prepare_tile<tile_of_neg>, samples<neg, -10, 10, -100, 100>, tile_of_neg, "Neg");
const Op kAbs =
    make_unary("abs", grad_abs, prepare_tile<tile_of_abs>, samples<abs, -20, -1, -100, 100>, tile_of_abs, "Abs");
const Op kErf =
    make_unary("erf", grad_erf, prepare_tile<tile_of_erf>, samples<erf, -20, 20, -9, 9>, tile_of_erf, "Erf");
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

OpList unary_ops() { return {&kExp, &kLog, &kSqrt, &kRsqrt, &kNeg, &kAbs, &kAbsGrad, &kErf}; }

}  // namespace plimsoll::ops
#endif
