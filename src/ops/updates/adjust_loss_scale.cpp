// adjust_loss_scale: halves the scale after a step whose gradients are not finite; doubles it after `growth_steps`
// finite steps in a row.
#include <cmath>
#include <limits>

#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  const TensorType scalar{DType::F32, {}};
  if (!(n.in[0] == scalar) || !(n.in[1] == TensorType{DType::I64, {}}) || !(n.in[2] == scalar))
    n.fail("takes the scale f32[], the count of finite steps i64[] and whether this step is finite f32[]");
  n.out = {};
}

Prepared prepare(const Facts& facts) {
  const int64_t growth_steps = facts.attrs.i("growth_steps", 2000);
  return {.kernel = make_kernel([=](const Args& args) {
            float& scale = *args.updated<float>(0);
            int64_t& finite_steps = *args.updated<int64_t>(1);
            if (*args.input<float>(2) == 0) {
              scale =
                  std::max(scale / 2, std::numeric_limits<float>::min());  // never zero: gradients are divided by it
              finite_steps = 0;
            } else if (++finite_steps >= growth_steps) {
              if (std::isfinite(scale * 2)) scale *= 2;
              finite_steps = 0;
            }
          })};
}

Sample sample(std::string name, double finite, int64_t growth_steps) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor scale = s.variable({}, 8, 9);
            const Tensor steps = s.variable({}, 3, 4, DType::I64);
            adjust_loss_scale(scale, steps, s.graph().scalar(static_cast<float>(finite)), growth_steps);
            return std::vector{scale, steps};
          },
          1e-4, false};
}

std::vector<Sample> samples() { return {sample("finite", 1, 9), sample("grows", 1, 4), sample("not finite", 0, 4)}; }

const Op kAdjustLossScale{.name = "adjust_loss_scale",
                          .infer = infer,
                          .types = {DType::F32, DType::I64, DType::F32},
                          .prepare = prepare,
                          .samples = samples,
                          .traits = {.updates = 0b11}};

}  // namespace

NodeId adjust_loss_scale(Tensor scale, Tensor finite_steps, Tensor is_finite, int64_t growth_steps, Name name) {
  return apply(kAdjustLossScale, {scale, finite_steps, is_finite}, {{"growth_steps", growth_steps}}, name).node();
}

OpList adjust_loss_scale_ops() { return {&kAdjustLossScale}; }

}  // namespace plimsoll::ops
