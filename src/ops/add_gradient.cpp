// add_gradient: sum += samples of the step x gradient, so that batches of different sizes count by their samples. The
// weight is an input for its layout alone: the update that reads the sum wants both in the same one.
#include <fmt/format.h>

#include "kernels/update.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add_gradient.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

void add_scaled(float samples, const float* g, float* sum, int64_t count) {
  const FloatTag d;
  const Floats times = hn::Set(d, samples);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    part.store(d, hn::MulAdd(part.load(d, g + i), times, part.load(d, sum + i)), sum + i);
  });
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(add_scaled);

// Inputs: sum, gradient, weight, [rows]: the weight stands where an update has its rate.
constexpr size_t kWeight = 2;

void infer(Infer& n) {
  const UpdateInputs inputs = update_inputs(n.attrs, 1, false);
  n.expect_inputs(inputs.count(), inputs.count());
  if (!(n.in[kWeight] == n.in[0]))
    n.fail(fmt::format("the sum is {} but the weight is {}", to_string(n.in[0]), to_string(n.in[kWeight])));
  expect_gradient(n, inputs);
  n.out = {};
}

Prepared prepare(const Facts& facts) {
  Update update(facts, 1, false);
  const Layout layout = facts.in[kWeight].layout;
  update.layouts[kWeight] = layout;
  if (!update.inputs.is_sparse) {
    update.layouts[0] = update.layouts[1] = layout;
    update.count = facts.in[kWeight].bytes() / static_cast<Bytes>(sizeof(float));
  }
  const auto samples = static_cast<float>(facts.whole_batch);
  return {.kernel = make_kernel([=](const Args& args) {
            auto* sum = args.updated<float>(0);
            const float times = args.state->counts_samples ? samples : 0;
            update.run(args, true, [&](int64_t first, int64_t count, const float* g) {
              HWY_DYNAMIC_DISPATCH(add_scaled)(times, g, sum + first, count);
            });
          }),
          .in = update.layouts,
          .workspace_bytes = update.workspace_bytes};
}

Sample sample(std::string name, bool sparse) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor sum = s.variable({5, 7});
            const Gradient g = sparse ? Gradient{s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}
                                      : Gradient{s.input({5, 7}), {}};
            add_gradient(sum, g, s.variable({5, 7}));
            return std::vector{sum};
          },
          1e-4, false};
}

std::vector<Sample> samples() { return {sample("dense", false), sample("rows", true)}; }

const Op kAddGradient{.name = "add_gradient",
                      .infer = infer,
                      .types = {DType::F32, DType::F32, DType::F32, DType::I32},
                      .prepare = prepare,
                      .samples = samples,
                      .traits = {.elementwise = true, .updates = 0b1}};

}  // namespace

NodeId add_gradient(Tensor sum, const Gradient& gradient, Tensor weight, Name name) {
  return add_update(kAddGradient, {sum}, gradient, weight, {}, {}, {}, name);
}

OpList add_gradient_ops() { return {&kAddGradient}; }

}  // namespace plimsoll::ops
#endif
