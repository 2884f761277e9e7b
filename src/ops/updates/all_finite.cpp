// all_finite: 1 when all numbers are finite, else 0.
#include <cmath>

#include "kernels/blocks.h"
#include "kernels/element_runs.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/all_finite.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

// Returns zero, or NaN when a number is not finite.
float zero_times(const float* x, int64_t count) {
  const FloatTag d;
  const Floats zero = hn::Zero(d);
  Floats sum = zero;
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR { sum = hn::MulAdd(part.load(d, x + i), zero, sum); });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(zero_times);

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {{DType::F32, {}}};
}

Prepared prepare(const Facts& facts) {
  const ElementRuns runs(facts.in[0]);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            const double sum = sum_in_blocks(runs.places(), 16384, args.workspace, [&](int64_t begin, int64_t end) {
              double zero = 0;
              runs.for_each(begin, end, [&](int64_t first, int64_t count) {
                zero += static_cast<double>(HWY_DYNAMIC_DISPATCH(zero_times)(x + first, count));
              });
              return zero;
            });
            *args.output<float>(0) = std::isfinite(sum) ? 1.0F : 0.0F;
          }),
          .in = {runs.layout()},
          .workspace_bytes = kBlockSumBytes};
}

std::vector<Sample> samples() {
  return {{"finite",
           [](SampleBuilder& s) {
             return std::vector{all_finite(s.input({5, 7}))};
           },
           1e-4, false},
          {"not finite",
           [](SampleBuilder& s) {
             return std::vector{all_finite(div(s.input({5, 7}), s.graph().scalar(0)))};
           },
           1e-4, false}};
}

const Op kAllFinite{.name = "all_finite",
                    .infer = infer,
                    .prepare = prepare,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Mixes, .recomputable = true}};

}  // namespace

Tensor all_finite(Tensor x, Name name) { return apply(kAllFinite, {x}, {}, name); }

OpList all_finite_ops() { return {&kAllFinite}; }

}  // namespace plimsoll::ops
#endif
