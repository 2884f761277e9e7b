// count_step: adds one to a counter; updates that come later in the program see the new number.
#include <fmt/format.h>

#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  if (!(n.in[0] == TensorType{DType::I64, {}}))
    n.fail(fmt::format("the counter must be i64[] but is {}", to_string(n.in[0])));
  n.out = {};
}

Prepared prepare(const Facts&) {
  return {.kernel = make_kernel([](const Args& args) { ++*args.updated<int64_t>(0); })};
}

std::vector<Sample> samples() {
  return {{"counter",
           [](SampleBuilder& s) {
             const Tensor counter = s.variable({}, 0, 9, DType::I64);
             count_step(counter);
             return std::vector{counter};
           },
           1e-4, false}};
}

const Op kCountStep{.name = "count_step",
                    .infer = infer,
                    .types = {DType::I64},
                    .prepare = prepare,
                    .samples = samples,
                    .traits = {.updates = 0b1}};

}  // namespace

NodeId count_step(Tensor counter, Name name) { return apply(kCountStep, {counter}, {}, name).node(); }

OpList count_step_ops() { return {&kCountStep}; }

}  // namespace plimsoll::ops
