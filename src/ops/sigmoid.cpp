// sigmoid: 1 / (1 + exp(-x)). The gradient needs the output alone.
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sigmoid.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void sigmoid_tile(const Tile& t) {
  map<1, Fetch::Ahead>(t, [](Floats x) HWY_ATTR { return sigmoid_of(x); });
}

// dy, y
void sigmoid_grad_tile(const Tile& t) {
  map<2>(t, [](Floats dy, Floats y) HWY_ATTR { return hn::Mul(dy, hn::NegMulAdd(y, y, y)); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(sigmoid)
PLIMSOLL_TILE(sigmoid_grad)

Tensor sigmoid_grad(Tensor dy, Tensor y);

void grad(Backward& b) { b.give(0, sigmoid_grad(b.dy[0], b.y[0])); }
void grad_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, sigmoid_grad(b.dy[0], b.x[1]));
  if (b.wanted[1]) b.give(1, mul(mul(b.dy[0], b.x[0]), scale(b.x[1], -2, 1)));
}

std::vector<Sample> samples() {
  return {{"small",
           [](SampleBuilder& s) {
             return std::vector{sigmoid(s.input({Dim::batch(), 3, 5}, -3, 3))};
           }},
          {"large",
           [](SampleBuilder& s) {
             return std::vector{sigmoid(s.input({Dim::batch(), 11}, -100, 100))};
           },
           1e-4, false}};
}

const Op kSigmoid{.name = "sigmoid",
                  .storable = true,
                  .infer = infer_map,
                  .types = {kFloats},
                  .grad = grad,
                  .prepare = prepare_tile<tile_of_sigmoid>,
                  .samples = samples,
                  .traits = map_traits(0b1),
                  .tile = tile_of_sigmoid,
                  .onnx = "Sigmoid",
                  .fusion = {.activation = [](const Attrs&) -> std::string_view { return "sigmoid"; }}};
const Op kSigmoidGrad{.name = "sigmoid_grad",
                      .infer = infer_same,
                      .types = {kFloats},
                      .grad = grad_grad,
                      .prepare = prepare_tile<tile_of_sigmoid_grad>,
                      .traits = map_traits(0b11),
                      .tile = tile_of_sigmoid_grad};

Tensor sigmoid_grad(Tensor dy, Tensor y) { return apply(kSigmoidGrad, {dy, y}); }

}  // namespace

Tensor sigmoid(Tensor x, Name name) { return apply(kSigmoid, {x}, {}, name); }

OpList sigmoid_ops() { return {&kSigmoid, &kSigmoidGrad}; }

}  // namespace plimsoll::ops
#endif
