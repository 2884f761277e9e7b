// count_step: adds one to a counter; updates that come later in the program see the new number.
// count_samples: adds the samples of the step.
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

void infer_samples(Infer& n) {
  n.expect_inputs(1, 1);
  if (!(n.in[0] == TensorType{DType::F32, {}}))
    n.fail(fmt::format("the counter must be f32[] but is {}", to_string(n.in[0])));
  n.out = {};
}

Prepared prepare_samples(const Facts& facts) {
  const auto samples = static_cast<float>(facts.whole_batch);
  return {.kernel = make_kernel(
              [=](const Args& args) { *args.updated<float>(0) += args.state->counts_samples ? samples : 0; })};
}

std::vector<Sample> samples_of_samples() {
  return {{"counter",
           [](SampleBuilder& s) {
             const Tensor counter = s.variable({}, 0, 9);
             count_samples(counter);
             return std::vector{counter};
           },
           1e-4, false}};
}

const Op kCountSamples{.name = "count_samples",
                       .infer = infer_samples,
                       .prepare = prepare_samples,
                       .samples = samples_of_samples,
                       .traits = {.updates = 0b1}};

}  // namespace

NodeId count_step(Tensor counter, Name name) { return apply(kCountStep, {counter}, {}, name).node(); }

NodeId count_samples(Tensor counter, Name name) { return apply(kCountSamples, {counter}, {}, name).node(); }

OpList count_step_ops() { return {&kCountStep, &kCountSamples}; }

}  // namespace plimsoll::ops
