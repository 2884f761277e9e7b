// gelu: x Phi(x), Phi being the normal distribution function; exact (by erf), or approximated by tanh.
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gelu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

constexpr float kRoot = 0.79788456080286536F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// max(x, 0) - a Phi(-a) with a = |x|, so that errors are as small as the second term. Both polynomials are our own
// fits: log2 Phi(-a), and (2^f - 1) / f. Absolute error below 6e-8 where x < 0, or 7e-8 on
// processors without a multiply-add.
void gelu_tile(const Tile& t) {
  constexpr float kLogTail[] = {-1,
                                -1.15111105F,
                                -0.459162143F,
                                -0.0526276107F,
                                0.00724542106F,
                                -0.000272075605F,
                                -0.000131473276F,
                                2.80569518e-05F,
                                -1.90206656e-06F};
  constexpr float kPower[] = {0.693146978F, 0.240222421F, 0.0555073375F, 0.00967151297F, 0.00132647274F};
  map<1, Fetch::Ahead>(t, [&](Floats x) HWY_ATTR {
    const Floats a = at_most(number(6), hn::Abs(x));
    const Floats log = polynomial(a, kLogTail);
    const Floats shifted = hn::Add(log, number(kPowerShift));
    const Floats f = hn::Sub(log, exponent_in(FloatTag(), shifted));
    const Floats power = power_in(FloatTag(), shifted);
    const Floats tail = hn::MulAdd(polynomial(f, kPower), hn::Mul(f, power), power);
    return hn::NegMulAdd(a, tail, at_least(number(0), x));
  });
}

// dy, x: dy (Phi(x) + x phi(x)), which is 1/2 + x P(x^2) / Q(x^2), our own fit, and zero below -6. Absolute error below
// 2.5e-7.
void gelu_grad_tile(const Tile& t) {
  constexpr float kP[] = {0.797884531F,    -0.0223710735F,  0.0138573331F,  0.000202734591F,
                          3.40919037e-05F, 9.22539218e-07F, 1.70464527e-08F};
  constexpr float kQ[] = {1,
                          0.305294979F,
                          0.0441336594F,
                          0.00397151757F,
                          0.000245325005F,
                          1.03077748e-05F,
                          3.38981487e-07F,
                          1.31477371e-09F};
  map<2, Fetch::Ahead>(t, [&](Floats dy, Floats x) HWY_ATTR {
    const Floats a = at_most(number(6), x);
    const Floats square = hn::Mul(a, a);
    const Floats odd = hn::Div(hn::Mul(a, polynomial(square, kP)), polynomial(square, kQ));
    return hn::Mul(dy, hn::IfThenZeroElse(hn::Lt(x, number(-6)), hn::Add(number(0.5F), odd)));
  });
}

// tanh(sqrt(2/pi) (x + c x^3))
HWY_INLINE Floats inner_tanh(Floats x) {
  return tanh_of(hn::Mul(hn::Mul(x, number(kRoot)), hn::MulAdd(hn::Mul(x, x), number(kCubic), number(1))));
}

void gelu_tanh_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR {
    const Floats half = hn::Mul(x, number(0.5F));
    return hn::MulAdd(half, inner_tanh(x), half);
  });
}

void gelu_tanh_grad_tile(const Tile& t) {
  map<2, Fetch::Ahead>(t, [](Floats dy, Floats x) HWY_ATTR {
    const Floats y = inner_tanh(x);
    const Floats half = number(0.5F);
    const Floats slope = hn::MulAdd(hn::Mul(x, x), number(3 * kCubic * kRoot), number(kRoot));
    const Floats rest = hn::Mul(hn::Mul(hn::Mul(x, half), hn::NegMulAdd(y, y, number(1))), slope);
    return hn::Mul(dy, hn::Add(hn::MulAdd(half, y, half), rest));
  });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(gelu)
PLIMSOLL_TILE(gelu_grad)
PLIMSOLL_TILE(gelu_tanh)
PLIMSOLL_TILE(gelu_tanh_grad)

// Bound by arithmetic: takes as long as two passes over memory.
Cost cost(const Facts& facts) { return {.bytes = 2 * facts.operand_bytes()}; }

const Op kGeluGrad{.name = "gelu_grad",
                   .infer = infer_same,
                   .types = {kFloats},
                   .prepare = prepare_tile<tile_of_gelu_grad>,
                   .cost = cost,
                   .traits = map_traits(0b11),
                   .tile = tile_of_gelu_grad};
const Op kGeluTanhGrad{.name = "gelu_tanh_grad",
                       .infer = infer_same,
                       .types = {kFloats},
                       .prepare = prepare_tile<tile_of_gelu_tanh_grad>,
                       .cost = cost,
                       .traits = map_traits(0b11),
                       .tile = tile_of_gelu_tanh_grad};

void grad(Backward& b) { b.give(0, apply(kGeluGrad, {b.dy[0], b.x[0]})); }
void grad_tanh(Backward& b) { b.give(0, apply(kGeluTanhGrad, {b.dy[0], b.x[0]})); }

template <bool approximate>
std::vector<Sample> samples() {
  return {{"small",
           [](SampleBuilder& s) {
             return std::vector{gelu(s.input({Dim::batch(), 3, 5}, -3, 3), approximate)};
           }},
          {"large",
           [](SampleBuilder& s) {
             return std::vector{gelu(s.input({Dim::batch(), 11}, -50, 50), approximate)};
           },
           1e-4, false}};
}

const Op kGelu{.name = "gelu",
               .storable = true,
               .infer = infer_map,
               .types = {kFloats},
               .grad = grad,
               .prepare = prepare_tile<tile_of_gelu>,
               .cost = cost,
               .samples = samples<false>,
               .traits = map_traits(0b1),
               .tile = tile_of_gelu};
const Op kGeluTanh{.name = "gelu_tanh",
                   .storable = true,
                   .infer = infer_map,
                   .types = {kFloats},
                   .grad = grad_tanh,
                   .prepare = prepare_tile<tile_of_gelu_tanh>,
                   .cost = cost,
                   .samples = samples<true>,
                   .traits = map_traits(0b1),
                   .tile = tile_of_gelu_tanh};

}  // namespace

Tensor gelu(Tensor x, bool approximate, Name name) { return apply(approximate ? kGeluTanh : kGelu, {x}, {}, name); }

OpList gelu_ops() { return {&kGelu, &kGeluTanh, &kGeluGrad, &kGeluTanhGrad}; }

}  // namespace plimsoll::ops
#endif
