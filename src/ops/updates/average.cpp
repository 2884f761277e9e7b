// average: a running mean of a weight, average = decay average + (1 - decay) w, which begins as the weight after the
// first step. swap: two variables of one type exchange their values.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer_average(Infer& n) {
  n.expect_inputs(3, 3);
  n.expect_between("decay", 0, 1, 0.99);
  if (!(n.in[0] == n.in[1]))
    n.fail(fmt::format("the weight is {} but its average is {}", to_string(n.in[1]), to_string(n.in[0])));
  if (!(n.in[2] == TensorType{DType::I64, {}})) n.fail("the step counter must be i64[]");
  n.out = {};
}

// Both variables as the first one lies.
Layout common_layout(const Facts& facts) { return facts.in[0].is_open ? facts.in[1].layout : facts.in[0].layout; }

Prepared prepare_average(const Facts& facts) {
  const Layout layout = common_layout(facts);
  const int64_t count = layout.bytes(DType::F32, facts.in[0].dims) / static_cast<Bytes>(sizeof(float));
  const auto decay = static_cast<float>(facts.attrs.f("decay", 0.99));
  return {.kernel = make_kernel([=](const Args& args) {
            auto* average = args.updated<float>(0);
            const auto* w = args.input<float>(1);
            const bool is_first = *args.input<int64_t>(2) <= 1;
            parallel_for(count, 16384, [&](int64_t first, int64_t last) {
              if (is_first) {
                std::copy(w + first, w + last, average + first);
                return;
              }
              for (int64_t i = first; i < last; ++i) average[i] = decay * average[i] + (1 - decay) * w[i];
            });
          }),
          .in = {layout, layout, {}}};
}

void infer_swap(Infer& n) {
  n.expect_inputs(2, 2);
  if (!(n.in[0] == n.in[1]))
    n.fail(fmt::format("{} and {} can't change places", to_string(n.in[0]), to_string(n.in[1])));
  n.out = {};
}

Prepared prepare_swap(const Facts& facts) {
  const Layout layout = common_layout(facts);
  const Bytes bytes = layout.bytes(facts.in[0].dtype, facts.in[0].dims);
  return {.kernel = make_kernel([=](const Args& args) {
            auto *a = args.updated<std::byte>(0), *b = args.updated<std::byte>(1);
            parallel_for(bytes, 64 * KiB,
                         [&](Bytes first, Bytes last) { std::swap_ranges(a + first, a + last, b + first); });
          }),
          .in = {layout, layout}};
}

std::vector<Sample> samples_average() {
  return {{"average",
           [](SampleBuilder& s) {
             const Tensor average = s.variable({5, 7});
             average_weight(average, s.input({5, 7}), s.integers({}, 2, 9, DType::I64), 0.8);
             return std::vector{average};
           },
           1e-4, false}};
}

std::vector<Sample> samples_swap() {
  return {{"floats",
           [](SampleBuilder& s) {
             const Tensor a = s.variable({5, 7}), b = s.variable({5, 7});
             swap_values(a, b);
             return std::vector{a, b};
           },
           1e-4, false}};
}

const Op kAverage{.name = "average_weight",
                  .infer = infer_average,
                  .types = {DType::F32, DType::F32, DType::I64},
                  .prepare = prepare_average,
                  .samples = samples_average,
                  .traits = {.elementwise = true, .updates = 0b1}};
const Op kSwap{.name = "swap_values",
               .infer = infer_swap,
               .types = {kAnyType},
               .prepare = prepare_swap,
               .samples = samples_swap,
               .traits = {.elementwise = true, .updates = 0b11}};

}  // namespace

NodeId average_weight(Tensor average, Tensor weight, Tensor step, double decay, Name name) {
  return apply(kAverage, {average, weight, step}, {{"decay", decay}}, name).node();
}

NodeId swap_values(Tensor a, Tensor b, Name name) { return apply(kSwap, {a, b}, {}, name).node(); }

OpList average_ops() { return {&kAverage, &kSwap}; }

}  // namespace plimsoll::ops
