// stop_gradient: the same bytes, as a constant for differentiation.
#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {n.in[0]};
}

// Gives nothing: the gradient is unset.
void grad(Backward& /*b*/) {}

std::vector<Sample> samples() {
  return {{"plain",
           [](SampleBuilder& s) {
             return std::vector{stop_gradient(s.input({Dim::batch(), 3}))};
           },
           1e-4, false}};
}

const Op kStopGradient{.name = "stop_gradient",
                       .storable = true,
                       .infer = infer,
                       .types = {kAnyType},
                       .grad = grad,
                       .samples = samples,
                       .traits = {.batch = BatchRule::Rows, .recomputable = true, .view = true}};

}  // namespace

Tensor stop_gradient(Tensor x, Name name) { return apply(kStopGradient, {x}, {}, name); }

OpList stop_gradient_ops() { return {&kStopGradient}; }

}  // namespace plimsoll::ops
