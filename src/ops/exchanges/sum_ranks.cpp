// sum_ranks: a variable becomes the sum of that variable over all ranks; on a rank that trains alone it stays as it is.
// What others send is received in the variable `buffer`. All exchanges of a step use the same buffer, so that they
// happen in program order on all ranks, whatever the plans of the ranks, and other tasks can run beside them. add_into:
// variable += other, as one level of a summation tree.
#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "kernels/sum_over_ranks.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(2, 2);
  if (n.in[1].shape.rank() != 1)
    n.fail(fmt::format("the buffer must have one dimension but is {}", to_string(n.in[1])));
  n.out = {};
}

Prepared prepare(const Facts& facts) {
  const Layout layout = facts.in[0].layout;
  const int64_t count = facts.in[0].bytes() / static_cast<Bytes>(sizeof(float)), received = facts.in[1].count();
  return {.kernel = make_kernel([=](const Args& args) {
            if (args.state->network != nullptr)
              sum_over_ranks(*args.state->network, args.updated<float>(0), count, args.updated<float>(1), received);
          }),
          .in = {layout, Layout()}};
}

std::vector<Sample> samples() {
  return {{"alone",
           [](SampleBuilder& s) {
             const Tensor variable = s.variable({5, 7});
             sum_ranks(variable, s.variable({16}));
             return std::vector{variable};
           },
           1e-4, false}};
}

const Op kSumRanks{.name = "sum_ranks",
                   .infer = infer,
                   .prepare = prepare,
                   .samples = samples,
                   .traits = {.elementwise = true, .updates = 0b11, .exchanges = true}};

void infer_add(Infer& n) {
  n.expect_inputs(2, 2);
  if (!(n.in[0] == n.in[1]))
    n.fail(fmt::format("the variable is {} but what is added is {}", to_string(n.in[0]), to_string(n.in[1])));
  n.out = {};
}

Prepared prepare_add(const Facts& facts) {
  const Layout layout = facts.in[0].layout;
  const int64_t count = facts.in[0].bytes() / static_cast<Bytes>(sizeof(float));
  return {.kernel = make_kernel([=](const Args& args) {
            auto* const to = args.updated<float>(0);
            const auto* const from = args.input<float>(1);
            parallel_for(count, 16 * 1024, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) to[i] += from[i];
            });
          }),
          .in = {layout, layout}};
}

std::vector<Sample> samples_of_add() {
  return {{"floats",
           [](SampleBuilder& s) {
             const Tensor variable = s.variable({5, 7});
             add_into(variable, s.input({5, 7}));
             return std::vector{variable};
           },
           1e-4, false}};
}

const Op kAddInto{.name = "add_into",
                  .infer = infer_add,
                  .prepare = prepare_add,
                  .samples = samples_of_add,
                  .traits = {.elementwise = true, .updates = 0b1}};

}  // namespace

NodeId sum_ranks(Tensor variable, Tensor turn, Name name) {
  return apply(kSumRanks, {variable, turn}, {}, name).node();
}

NodeId add_into(Tensor variable, Tensor other, Name name) {
  return apply(kAddInto, {variable, other}, {}, name).node();
}

OpList sum_ranks_ops() { return {&kSumRanks, &kAddInto}; }

}  // namespace plimsoll::ops
