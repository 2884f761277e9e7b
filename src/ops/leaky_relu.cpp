// leaky_relu: x above zero, slope x below. The gradient needs the output alone, unless the slope is negative.
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/leaky_relu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void leaky_relu_tile(const Tile& t) {
  const Floats slope = hn::Set(FloatTag(), t.params[0]);
  map<1>(t, [=](Floats x) HWY_ATTR { return hn::IfThenElse(hn::Gt(x, hn::Zero(FloatTag())), x, hn::Mul(x, slope)); });
}

// dy, and a tensor with the signs of x
void leaky_relu_grad_tile(const Tile& t) {
  const Floats slope = hn::Set(FloatTag(), t.params[0]);
  map<2>(t, [=](Floats dy, Floats sign)
                HWY_ATTR { return hn::IfThenElse(hn::Gt(sign, hn::Zero(FloatTag())), dy, hn::Mul(dy, slope)); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

void fill_slope(const Attrs& attrs, float* params) { params[0] = static_cast<float>(attrs.f("slope")); }

PLIMSOLL_TILE(leaky_relu, 1, fill_slope)
PLIMSOLL_TILE(leaky_relu_grad, 1, fill_slope)

Tensor leaky_relu_grad(Tensor dy, Tensor sign, const Attrs& attrs);

void infer(Infer& n) {
  n.expect_finite("slope");
  infer_map(n);
}

void grad(Backward& b) { b.give(0, leaky_relu_grad(b.dy[0], b.attrs.f("slope") < 0 ? b.x[0] : b.y[0], b.attrs)); }
void grad_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, leaky_relu_grad(b.dy[0], b.x[1], b.attrs));
}

std::vector<Sample> samples() {
  return {{"positive",
           [](SampleBuilder& s) {
             return std::vector{leaky_relu(s.input({Dim::batch(), 3, 5}, 0.1, 2))};
           }},
          {"negative",
           [](SampleBuilder& s) {
             return std::vector{leaky_relu(s.input({Dim::batch(), 7}, -2, -0.1), 0.1)};
           }},
          {"negative slope",
           [](SampleBuilder& s) {
             return std::vector{leaky_relu(s.input({Dim::batch(), 7}, -2, -0.1), -0.5)};
           }},
          {"mixed",
           [](SampleBuilder& s) {
             return std::vector{leaky_relu(s.input({Dim::batch(), 13}))};
           },
           1e-4, false}};
}

const Op kLeakyRelu{.name = "leaky_relu",
                    .storable = true,
                    .infer = infer,
                    .types = {kFloats},
                    .grad = grad,
                    .prepare = prepare_tile<tile_of_leaky_relu>,
                    .samples = samples,
                    .traits = map_traits(0b1),
                    .tile = tile_of_leaky_relu,
                    .onnx = "LeakyRelu"};
const Op kLeakyReluGrad{.name = "leaky_relu_grad",
                        .infer = infer_same,
                        .types = {kFloats},
                        .grad = grad_grad,
                        .prepare = prepare_tile<tile_of_leaky_relu_grad>,
                        .traits = map_traits(0b11),
                        .tile = tile_of_leaky_relu_grad};

Tensor leaky_relu_grad(Tensor dy, Tensor sign, const Attrs& attrs) { return apply(kLeakyReluGrad, {dy, sign}, attrs); }

}  // namespace

Tensor leaky_relu(Tensor x, double slope, Name name) { return apply(kLeakyRelu, {x}, {{"slope", slope}}, name); }

OpList leaky_relu_ops() { return {&kLeakyRelu, &kLeakyReluGrad}; }

}  // namespace plimsoll::ops
#endif
