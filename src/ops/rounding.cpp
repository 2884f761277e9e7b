// floor, ceil, round (halves to the even number), sign of every element; mod, broadcast. sign and mod of integers too.
#include <cmath>

#include "kernels/integer_map.h"
#include "ops/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rounding.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void floor_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Floor(x); });
}
void ceil_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Ceil(x); });
}
void round_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::Round(x); });
}
// Zeros and NaN stay as they are.
void sign_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR {
    const Floats zero = hn::Zero(FloatTag());
    const Floats one = hn::Set(FloatTag(), 1.0F);
    return hn::IfThenElse(hn::Or(hn::Lt(x, zero), hn::Gt(x, zero)), hn::CopySign(one, x), x);
  });
}
// Of the sign of b, as in Python; by the C library, which is exact however large the quotient.
void mod_tile(const Tile& t) {
  for (size_t i = 0; i < t.count; ++i) {
    const float b = t.in[1][i];
    const float rest = std::fmod(t.in[0][i], b);
    t.out[i] = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(floor)
PLIMSOLL_TILE(ceil)
PLIMSOLL_TILE(round)
PLIMSOLL_TILE(sign)
PLIMSOLL_TILE(mod)

// Steps: the gradient is zero, but for the points between them.
void grad_of_steps(Backward&) {}

// a = b floor(a / b) + mod(a, b)
void grad_mod(Backward& b) {
  if (b.wanted[0]) b.give(0, sum_to(b.dy[0], b.x[0].shape()));
  if (b.wanted[1]) b.give(1, sum_to(mul(scale(b.dy[0], -1), round(div(sub(b.x[0], b.y[0]), b.x[1]))), b.x[1].shape()));
}

Prepared prepare_sign(const Facts& facts) {
  if (!is_large_integer(facts.in[0].dtype)) return prepare_tile(facts, *tile_of_sign());
  return {.kernel = with_integer(facts.in[0].dtype, [&](auto number) {
            using T = decltype(number);
            return make_integer_map<T>(facts, [](T x) { return static_cast<T>((x > 0) - (x < 0)); });
          })};
}

Prepared prepare_mod(const Facts& facts) {
  if (!is_large_integer(facts.in[0].dtype)) return prepare_tile(facts, *tile_of_mod());
  return {.kernel = with_integer(facts.in[0].dtype, [&](auto number) {
            using T = decltype(number);
            return make_integer_pairs<T>(facts, [](T a, T b) { return floor_remainder(a, b); });
          })};
}

// Between two steps, and over many.
template <Tensor (*function)(Tensor, Name)>
std::vector<Sample> samples_of_steps() {
  return {{"one step",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 3, 5}, 0.1, 0.4), {})};
           }},
          {"many steps",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 13}, -5, 5), {})};
           },
           1e-4, false},
          {"halves",
           [](SampleBuilder& s) {
             const Tensor whole = cast(s.integers({Dim::batch(), 13}, -9, 9), DType::F32);
             return std::vector{function(scale(whole, 0.5), {})};
           },
           1e-4, false}};
}

std::vector<Sample> samples_mod() {
  return {{"reals",
           [](SampleBuilder& s) {
             return std::vector{mod(s.input({Dim::batch(), 3, 5}, 2.1, 2.9), s.input({5}, 0.97, 1.03))};
           }},
          {"signs",
           [](SampleBuilder& s) {
             return std::vector{mod(s.input({Dim::batch(), 13}, -9, 9), s.input({13}, -3, -1)),
                                mod(s.input({Dim::batch(), 13}, -9, 9), s.input({Dim::batch(), 1}, 1, 3))};
           },
           1e-3, false},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{mod(s.integers({Dim::batch(), 13}, -9, 9), s.integers({13}, 1, 5)),
                                mod(s.integers({Dim::batch(), 13}, -9, 9), s.integers({1}, -4, -1))};
           },
           1e-4, false}};
}

const Op kFloor =
    make_unary("floor", grad_of_steps, prepare_tile<tile_of_floor>, samples_of_steps<floor>, tile_of_floor, "Floor");
const Op kCeil =
    make_unary("ceil", grad_of_steps, prepare_tile<tile_of_ceil>, samples_of_steps<ceil>, tile_of_ceil, "Ceil");
const Op kRound =
    make_unary("round", grad_of_steps, prepare_tile<tile_of_round>, samples_of_steps<round>, tile_of_round, "Round");
const Op kSign =
    make_unary("sign", grad_of_steps, prepare_sign, samples_of_steps<sign>, tile_of_sign, "Sign", kNumbers);
const Op kMod{.name = "mod",
              .storable = true,
              .infer = infer_broadcast,
              .types = {kNumbers},
              .grad = grad_mod,
              .prepare = prepare_mod,
              .samples = samples_mod,
              .traits = map_traits(0b11),
              .tile = tile_of_mod,
              .onnx = "Mod"};

}  // namespace

Tensor floor(Tensor x, Name name) { return apply(kFloor, {x}, {}, name); }
Tensor ceil(Tensor x, Name name) { return apply(kCeil, {x}, {}, name); }
Tensor round(Tensor x, Name name) { return apply(kRound, {x}, {}, name); }
Tensor sign(Tensor x, Name name) { return apply(kSign, {x}, {}, name); }
Tensor mod(Tensor a, Tensor b, Name name) { return apply(kMod, {a, b}, {}, name); }

OpList rounding_ops() { return {&kFloor, &kCeil, &kRound, &kSign, &kMod}; }

}  // namespace plimsoll::ops
#endif
