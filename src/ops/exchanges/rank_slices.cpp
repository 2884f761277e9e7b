// Operators of ranks that share a variable, each with a slice of it. gather_ranks: a variable of which each rank has
// changed its slice becomes whole on all. gather_slices: a value made of the slices of a variable that no rank has as a
// whole. add_to_slices: slice += this rank's slice of the sum over all ranks of samples of the step x gradient.
// Exchanges of a step use one buffer in turn, so that they happen in program order on all ranks. A rank that trains
// alone acts as rank 0.
#include "kernels/rank_slices.h"

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

int64_t ranks_of(const Attrs& attrs) { return attrs.i("slices", 1); }

void expect_turn(const Infer& n, size_t input) {
  if (n.in[input].shape.rank() != 1)
    n.fail(fmt::format("the buffer must have one dimension but is {}", to_string(n.in[input])));
}

void expect_slice(const Infer& n, const TensorType& slice, const Shape& whole) {
  const int64_t length = slice_length(element_count(whole).fixed(), ranks_of(n.attrs));
  if (slice.dtype != DType::F32 || !(slice.shape == Shape{length}))
    n.fail(fmt::format("the slice of f32{} must be f32[{}] but is {}", to_string(whole), length, to_string(slice)));
}

// A gather sends half of what a sum over ranks does, and so does a sum into slices.
Cost half_of_sum(const ConcreteType& whole) { return {.bytes = static_cast<double>(whole.bytes()) / 2}; }

void infer_gather(Infer& n) {
  n.expect_inputs(2, 2);
  expect_turn(n, 1);
  n.out = {};
}

Prepared prepare_gather(const Facts& facts) {
  const int64_t count = facts.in[0].count(), length = slice_length(count, ranks_of(facts.attrs));
  return {.kernel = make_kernel([=](const Args& args) {
            if (args.state->network != nullptr)
              gather_over_ranks(*args.state->network, args.updated<float>(0), count, length);
          }),
          .in = {Layout(), Layout()}};
}

Cost cost_of_gather(const Facts& facts) { return half_of_sum(facts.in[0]); }

std::vector<Sample> samples_of_gather() {
  return {{"alone",
           [](SampleBuilder& s) {
             const Tensor variable = s.variable({5, 7});
             gather_ranks(variable, s.variable({16}), 1);
             return std::vector{variable};
           },
           1e-4, false}};
}

const Op kGatherRanks{.name = "gather_ranks",
                      .infer = infer_gather,
                      .prepare = prepare_gather,
                      .cost = cost_of_gather,
                      .samples = samples_of_gather,
                      .traits = {.updates = 0b11, .plain_updates = true, .exchanges = true}};

void infer_slices(Infer& n) {
  n.expect_inputs(2, 2);
  const Shape whole = n.attrs.shape("shape");
  expect_slice(n, n.in[0], whole);
  expect_turn(n, 1);
  n.out = {{DType::F32, whole}};
}

Prepared prepare_slices(const Facts& facts) {
  const int64_t count = facts.out[0].count(), length = facts.in[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            Network* const network = args.state->network;
            const RankSlice own = slice_of_rank(count, length, network != nullptr ? network->rank() : 0);
            auto* const whole = args.output<float>(0);
            std::copy_n(args.input<float>(0), own.count, whole + own.first);
            if (network != nullptr) gather_over_ranks(*network, whole, count, length);
          }),
          .in = {Layout(), Layout()}};
}

Cost cost_of_slices(const Facts& facts) { return half_of_sum(facts.out[0]); }

std::vector<Sample> samples_of_slices() {
  return {{"alone",
           [](SampleBuilder& s) {
             return std::vector{gather_slices(s.variable({48}), s.variable({16}), 1, {5, 7})};
           },
           1e-4, false}};
}

const Op kGatherSlices{.name = "gather_slices",
                       .infer = infer_slices,
                       .prepare = prepare_slices,
                       .cost = cost_of_slices,
                       .samples = samples_of_slices,
                       .traits = {.updates = 0b10, .exchanges = true}};

void infer_add(Infer& n) {
  n.expect_inputs(3, 3);
  expect_slice(n, n.in[0], n.in[2].shape);
  expect_turn(n, 1);
  n.out = {};
}

Prepared prepare_add(const Facts& facts) {
  const int64_t count = facts.in[2].count(), length = facts.in[0].count(), buffer = facts.in[1].count();
  const auto samples = static_cast<float>(facts.whole_batch);
  return {.kernel = make_kernel([=](const Args& args) {
            sum_into_slices(args.state->network, args.input<float>(2), count, length,
                            args.state->counts_samples ? samples : 0, args.updated<float>(0), args.updated<float>(1),
                            buffer);
          }),
          .in = {Layout(), Layout(), Layout()}};
}

Cost cost_of_add(const Facts& facts) { return half_of_sum(facts.in[2]); }

std::vector<Sample> samples_of_add() {
  return {{"alone",
           [](SampleBuilder& s) {
             const Tensor slice = s.variable({48});
             add_to_slices(slice, s.variable({64}), s.input({5, 7}), 1);
             return std::vector{slice};
           },
           1e-4, false}};
}

const Op kAddToSlices{.name = "add_to_slices",
                      .infer = infer_add,
                      .prepare = prepare_add,
                      .cost = cost_of_add,
                      .samples = samples_of_add,
                      .traits = {.updates = 0b11, .exchanges = true}};

}  // namespace

NodeId gather_ranks(Tensor variable, Tensor turn, int64_t ranks, Name name) {
  return apply(kGatherRanks, {variable, turn}, {{"slices", ranks}}, name).node();
}

Tensor gather_slices(Tensor slice, Tensor turn, int64_t ranks, Shape shape, Name name) {
  return apply(kGatherSlices, {slice, turn}, {{"slices", ranks}, {"shape", shape}}, name);
}

NodeId add_to_slices(Tensor slice, Tensor turn, Tensor gradient, int64_t ranks, Name name) {
  return apply(kAddToSlices, {slice, turn, gradient}, {{"slices", ranks}}, name).node();
}

OpList rank_slices_ops() { return {&kGatherRanks, &kGatherSlices, &kAddToSlices}; }

}  // namespace plimsoll::ops
