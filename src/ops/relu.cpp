// relu: max(x, 0). The gradient needs the output alone.
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/relu.cpp"
#include "hwy/foreach_target.h"
#include "ops/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {

// A NaN stays one: not every instruction for a maximum would keep it.
void relu_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(FloatTag())), x); });
}

// dy, y
void relu_grad_tile(const Tile& t) {
  map<2>(t, [](Floats dy, Floats y) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(y, hn::Zero(FloatTag())), dy); });
}

}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(relu_tile);
HWY_EXPORT(relu_grad_tile);

const TileOp* tile() {
  static const TileOp op{PLIMSOLL_BEST(relu_tile)};
  return &op;
}
const TileOp* grad_tile() {
  static const TileOp op{PLIMSOLL_BEST(relu_grad_tile)};
  return &op;
}

void infer_grad(Infer& n) {
  n.expect_inputs(2, 2);
  infer_same(n);
}

Tensor relu_grad(Tensor dy, Tensor y);

void grad(Backward& b) { b.give(0, relu_grad(b.dy[0], b.y[0])); }
// Linear in dy, and flat in y.
void grad_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, relu_grad(b.dy[0], b.x[1]));
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
               .infer = infer_map,
               .grad = grad,
               .prepare = prepare_tile<tile>,
               .samples = samples,
               .traits = map_traits(0b1),
               .tile = tile,
               .onnx = "Relu"};
const Op kReluGrad{.name = "relu_grad",
                   .infer = infer_grad,
                   .grad = grad_grad,
                   .prepare = prepare_tile<grad_tile>,
                   .traits = map_traits(0b11),
                   .tile = grad_tile};

Tensor relu_grad(Tensor dy, Tensor y) { return dy.graph().add(kReluGrad, {dy, y}); }

}  // namespace

Tensor relu(Tensor x, Name name) { return x.graph().add(kRelu, {x}, {}, name); }

OpList relu_ops() { return {&kRelu, &kReluGrad}; }

}  // namespace plimsoll
#endif
