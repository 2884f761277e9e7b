// sum_ranks: a variable becomes the sum of that variable over all ranks; alone it stays. What others send is received
// in the variable `buffer`. All exchanges of a step use the same one, so they happen in program order on all ranks,
// whatever the plans of these are, and other tasks can run beside them. sum_small_ranks: the same of many small ones at
// once, because a message takes longer than its bytes. add_into: variable += other, as one level of a
// summation tree.
#include <algorithm>

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

// variables, buffer: all of them in the buffer, one after another, and back.
void infer_small(Infer& n) {
  n.expect_inputs(2, 1 + kMostSummedAtOnce);
  const TensorType& buffer = n.in.back();
  int64_t elements = 0;
  for (const TensorType& type : n.in.first(n.in.size() - 1)) elements += element_count(type.shape).fixed();
  if (buffer.shape.rank() != 1 || buffer.shape[0].fixed() < 2 * elements)
    n.fail(fmt::format("the buffer must be f32[{}] or longer but is {}", 2 * elements, to_string(buffer)));
  n.out = {};
}

Prepared prepare_small(const Facts& facts) {
  std::vector<int64_t> counts;
  int64_t all = 0;
  for (const ConcreteType& type : facts.in.first(facts.in.size() - 1)) {
    counts.push_back(type.count());
    all += counts.back();
  }
  const int64_t room = facts.in.back().count() - all;
  return {.kernel = make_kernel([=](const Args& args) {
            if (args.state->network == nullptr) return;
            auto* const joined = args.updated<float>(counts.size());
            float* to = joined;
            for (size_t i = 0; i < counts.size(); ++i) to = std::copy_n(args.input<float>(i), counts[i], to);
            sum_over_ranks(*args.state->network, joined, all, joined + all, room);
            const float* from = joined;
            for (size_t i = 0; i < counts.size(); from += counts[i++])
              std::copy_n(from, counts[i], args.updated<float>(i));
          }),
          .in = std::vector<Layout>(facts.in.size())};
}

Cost cost_of_small(const Facts& facts) {
  double bytes = 0;
  for (const ConcreteType& type : facts.in.first(facts.in.size() - 1)) bytes += static_cast<double>(type.bytes());
  return {.bytes = bytes};
}

std::vector<Sample> samples_of_small() {
  return {{"alone",
           [](SampleBuilder& s) {
             const Tensor one = s.variable({5}), other = s.variable({7});
             sum_small_ranks({one, other}, s.variable({32}));
             return std::vector{one, other};
           },
           1e-4, false}};
}

const Op kSumSmallRanks{.name = "sum_small_ranks",
                        .infer = infer_small,
                        .prepare = prepare_small,
                        .cost = cost_of_small,
                        .samples = samples_of_small,
                        .traits = {.updates = ~0U, .exchanges = true}};

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

NodeId sum_small_ranks(const std::vector<Tensor>& variables, Tensor turn, Name name) {
  std::vector<Tensor> inputs = variables;
  inputs.push_back(turn);
  return apply(kSumSmallRanks, inputs, {}, name).node();
}

NodeId add_into(Tensor variable, Tensor other, Name name) {
  return apply(kAddInto, {variable, other}, {}, name).node();
}

OpList sum_ranks_ops() { return {&kSumRanks, &kSumSmallRanks, &kAddInto}; }

}  // namespace plimsoll::ops
