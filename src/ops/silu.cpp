// silu (swish): x sigmoid(x).
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/silu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void silu_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR { return hn::Mul(x, sigmoid_of(x)); });
}

// dy, x: dy s (1 + x (1 - s))
void silu_grad_tile(const Tile& t) {
  map<2, Fetch::Ahead>(t, [](Floats dy, Floats x) HWY_ATTR {
    const Floats s = sigmoid_of(x);
    return hn::Mul(hn::Mul(dy, s), hn::MulAdd(x, hn::Sub(number(1), s), number(1)));
  });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(silu)
PLIMSOLL_TILE(silu_grad)

const Op kSiluGrad{.name = "silu_grad",
                   .infer = infer_same,
                   .types = {kFloats},
                   .prepare = prepare_tile<tile_of_silu_grad>,
                   .traits = map_traits(0b11),
                   .tile = tile_of_silu_grad};

void grad(Backward& b) { b.give(0, apply(kSiluGrad, {b.dy[0], b.x[0]})); }

std::vector<Sample> samples() {
  return {{"small",
           [](SampleBuilder& s) {
             return std::vector{silu(s.input({Dim::batch(), 3, 5}, -3, 3))};
           }},
          {"large",
           [](SampleBuilder& s) {
             return std::vector{silu(s.input({Dim::batch(), 11}, -100, 100))};
           },
           1e-4, false}};
}

const Op kSilu{.name = "silu",
               .storable = true,
               .infer = infer_map,
               .types = {kFloats},
               .grad = grad,
               .prepare = prepare_tile<tile_of_silu>,
               .samples = samples,
               .traits = map_traits(0b1),
               .tile = tile_of_silu};

}  // namespace

Tensor silu(Tensor x, Name name) { return apply(kSilu, {x}, {}, name); }

OpList silu_ops() { return {&kSilu, &kSiluGrad}; }

}  // namespace plimsoll::ops
#endif
