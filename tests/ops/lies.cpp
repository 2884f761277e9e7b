// Operators that claim what is not so: the proofs of the op test must find each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/apply.h"
#include "kernels/elementwise.h"
#include "ops/claims.h"

namespace plimsoll::testing {
namespace {

using namespace kernels;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 4;

void infer_first(Infer& n) { n.out = {n.in[0]}; }
void infer_longer(Infer& n) { n.out = {{n.in[0].dtype, {n.in[0].shape[0], 6}}}; }
void infer_swapped(Infer& n) { n.out = {{n.in[0].dtype, {n.in[0].shape[1], n.in[0].shape[0]}}}; }

using Element = float (*)(const float* x, const float* y, int64_t i);  // of the output

template <Element element>
Prepared prepare_each(const Facts& facts) {
  const int64_t count = facts.out[0].count();
  const size_t last = facts.in.size() - 1;
  return {.kernel = make_kernel([=](const Args& args) {
            for (int64_t i = 0; i < count; ++i)
              args.output<float>(0)[i] = element(args.input<float>(0), args.input<float>(last), i);
          })};
}

float copied(const float* x, const float*, int64_t i) { return x[i]; }
float from_before(const float* x, const float*, int64_t i) { return x[i] + (i > 0 ? x[i - 1] : 0); }
float backwards(const float* x, const float*, int64_t i) { return x[kBatch * 5 - 1 - i]; }
float half_passes(const float* dy, const float* y, int64_t i) { return y[i] > 0 ? dy[i] : dy[i] / 2; }
float passes(const float* dy, const float* y, int64_t i) { return y[i] > 0 ? dy[i] : 0; }
float difference(const float* x, const float* y, int64_t i) { return x[i] - y[i]; }
float sum(const float* x, const float* y, int64_t i) { return x[i] + y[i]; }

std::optional<graph::Fusion::Between> above_zero(const graph::Attrs&) { return graph::Fusion::Between{0, INFINITY}; }

struct Net {
  Graph graph;
  Tensor x = graph.placeholder<float>("x", {Dim::batch(), 5}), y = graph.placeholder<float>("y", {Dim::batch(), 5});
  Contents of_x = sample_contents(x.type(), "x", -1, 1, kBatch), of_y = sample_contents(y.type(), "y", -1, 1, kBatch);
  StepState state;

  const graph::Node& add(const graph::Op& op, std::initializer_list<Tensor> inputs) {
    return graph.body().node(graph::apply(op, inputs).node());
  }
};

TEST(Lies, ElementwiseIsFoundOut) {
  Net net;
  const graph::Op honest{.name = "honest", .infer = infer_first, .prepare = prepare_each<copied>};
  EXPECT_EQ(why_not_elementwise(net.graph, net.add(honest, {net.x}), {net.of_x}, kBatch, net.state), "");
  for (const auto prepare : {prepare_each<from_before>, prepare_each<backwards>}) {
    const graph::Op liar{.name = "liar", .infer = infer_first, .prepare = prepare, .traits = map_traits(0)};
    EXPECT_THAT(why_not_elementwise(net.graph, net.add(liar, {net.x}), {net.of_x}, kBatch, net.state),
                HasSubstr("of result 0 depends on element"));
  }
}

TEST(Lies, ViewIsFoundOut) {
  Net net;
  const graph::Traits view{.batch = BatchRule::Rows, .recomputable = true, .view = true};
  const auto reason = [&](const graph::Op& op) {
    return why_not_view(net.graph, net.add(op, {net.x}), {net.of_x}, kBatch, net.state);
  };
  EXPECT_EQ(reason({.name = "honest", .infer = infer_first, .traits = view}), "");
  EXPECT_EQ(reason({.name = "copies", .infer = infer_first, .prepare = prepare_each<copied>, .traits = view}), "");
  EXPECT_THAT(reason({.name = "longer", .infer = infer_longer, .traits = view}),
              HasSubstr("24 bytes but its input 20"));
  EXPECT_THAT(reason({.name = "swapped", .infer = infer_swapped, .traits = view}), HasSubstr("is not sample"));
  EXPECT_THAT(reason({.name = "turned", .infer = infer_first, .prepare = prepare_each<backwards>, .traits = view}),
              HasSubstr("its kernel gives other bytes"));
}

TEST(Lies, WhatFusingReliesOnIsFoundOut) {
  Net net;
  const graph::Op mask{
      .name = "mask", .infer = infer_first, .prepare = prepare_each<passes>, .fusion = {.passes = above_zero}};
  const graph::Op half{
      .name = "half", .infer = infer_first, .prepare = prepare_each<half_passes>, .fusion = {.passes = above_zero}};
  const std::vector<Contents> both{net.of_x, net.of_y};
  EXPECT_EQ(why_not_passing(net.graph, net.add(mask, {net.x, net.y}), both, kBatch, net.state), "");
  EXPECT_THAT(why_not_passing(net.graph, net.add(half, {net.x, net.y}), both, kBatch, net.state), HasSubstr("at y ="));
  const graph::Op adds{.name = "adds", .infer = infer_first, .prepare = prepare_each<sum>, .fusion = {.sums = true}};
  const graph::Op takes{
      .name = "takes", .infer = infer_first, .prepare = prepare_each<difference>, .fusion = {.sums = true}};
  EXPECT_EQ(why_not_sum(net.graph, net.add(adds, {net.x, net.y}), both, kBatch, net.state), "");
  EXPECT_THAT(why_not_sum(net.graph, net.add(takes, {net.x, net.y}), both, kBatch, net.state), HasSubstr("element 0"));
}

}  // namespace
}  // namespace plimsoll::testing
