// relu: max(x, 0). The gradient needs the output alone.
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/relu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/clamp-inl.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void relu_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return relu_of(FloatTag(), x); });
}

// dy, y
void relu_grad_tile(const Tile& t) {
  map<2>(t, [](Floats dy, Floats y) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(y, hn::Zero(FloatTag())), dy); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(relu)
PLIMSOLL_TILE(relu_grad)

Tensor relu_grad(Tensor dy, Tensor y);

void grad(Backward& b) { b.give(0, relu_grad(b.dy[0], b.y[0])); }
// The gradient is linear in dy and constant in y.
void grad_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, relu_grad(b.dy[0], b.x[1]));
}

std::optional<Fusion::Between> passes(const Attrs&) {
  return Fusion::Between{0, std::numeric_limits<double>::infinity()};
}

std::vector<Sample> samples() {
  return {
      {"positive",
       [](SampleBuilder& s) {
         return std::vector{relu(s.input({Dim::batch(), 3, 5}, 0.1, 2))};
       }},
      {"negative",
       [](SampleBuilder& s) {
         return std::vector{relu(s.input({Dim::batch(), 7}, -2, -0.1))};
       }},
      {"mixed",
       [](SampleBuilder& s) {
         return std::vector{relu(s.input({Dim::batch(), 3, 5, 2}))};
       },
       1e-4, false},
  };
}

const Op kRelu{.name = "relu",
               .storable = true,
               .infer = infer_map,
               .types = {kFloats},
               .grad = grad,
               .prepare = prepare_tile<tile_of_relu>,
               .samples = samples,
               .traits = map_traits(0b1),
               .tile = tile_of_relu,
               .onnx = "Relu",
               .fusion = {.activation = [](const Attrs&) -> std::string_view { return "relu"; }}};
const Op kReluGrad{.name = "relu_grad",
                   .infer = infer_same,
                   .types = {kFloats},
                   .grad = grad_grad,
                   .prepare = prepare_tile<tile_of_relu_grad>,
                   .traits = map_traits(0b11),
                   .tile = tile_of_relu_grad,
                   .fusion = {.gradient_of = &kRelu, .passes = passes}};

Tensor relu_grad(Tensor dy, Tensor y) { return apply(kReluGrad, {dy, y}); }

}  // namespace

Tensor relu(Tensor x, Name name) { return apply(kRelu, {x}, {}, name); }

OpList relu_ops() { return {&kRelu, &kReluGrad}; }

}  // namespace plimsoll::ops
#endif
