// tanh. The gradient needs the output alone.
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/tanh.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void tanh_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR { return tanh_of(x); });
}

// dy, y
void tanh_grad_tile(const Tile& t) {
  map<2>(t, [](Floats dy, Floats y) HWY_ATTR { return hn::Mul(dy, hn::NegMulAdd(y, y, number(1))); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(tanh)
PLIMSOLL_TILE(tanh_grad)

Tensor tanh_grad(Tensor dy, Tensor y);

void grad(Backward& b) { b.give(0, tanh_grad(b.dy[0], b.y[0])); }
void grad_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, tanh_grad(b.dy[0], b.x[1]));
  if (b.wanted[1]) b.give(1, mul(mul(b.dy[0], b.x[0]), scale(b.x[1], -2)));
}

std::vector<Sample> samples() {
  return {{"small",
           [](SampleBuilder& s) {
             return std::vector{tanh(s.input({Dim::batch(), 3, 5}, -2, 2))};
           }},
          {"large",
           [](SampleBuilder& s) {
             return std::vector{tanh(s.input({Dim::batch(), 11}, -50, 50))};
           },
           1e-4, false}};
}

const Op kTanh{.name = "tanh",
               .storable = true,
               .infer = infer_map,
               .types = {kFloats},
               .grad = grad,
               .prepare = prepare_tile<tile_of_tanh>,
               .samples = samples,
               .traits = map_traits(0b1),
               .tile = tile_of_tanh,
               .onnx = "Tanh",
               .fusion = {.activation = [](const Attrs&) -> std::string_view { return "tanh"; }}};
const Op kTanhGrad{.name = "tanh_grad",
                   .infer = infer_same,
                   .types = {kFloats},
                   .grad = grad_grad,
                   .prepare = prepare_tile<tile_of_tanh_grad>,
                   .traits = map_traits(0b11),
                   .tile = tile_of_tanh_grad};

Tensor tanh_grad(Tensor dy, Tensor y) { return apply(kTanhGrad, {dy, y}); }

}  // namespace

Tensor tanh(Tensor x, Name name) { return apply(kTanh, {x}, {}, name); }

OpList tanh_ops() { return {&kTanh, &kTanhGrad}; }

}  // namespace plimsoll::ops
#endif
