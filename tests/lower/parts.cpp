// Lowering a step that runs in parts of the batch: sums go on from part to part, a smaller last part has kernels of its
// own, and what mixes samples waits for the rows of all.
#include <gtest/gtest.h>

#include "autodiff/gradients.h"
#include "lower/run_once.h"
#include "ops/ops.h"

namespace plimsoll {
namespace {

using testing::Ran;
using testing::run_once;

LowerOptions options(const Graph& graph, int64_t batch, int64_t part_samples) {
  LowerOptions options;
  options.batch = batch;
  options.part_samples = part_samples;
  options.waits.assign(graph.nodes().size(), false);
  return options;
}

void expect_close(const Ran& a, const Ran& b) {
  ASSERT_EQ(a.fetches.size(), b.fetches.size());
  for (size_t i = 0; i < a.fetches.size(); ++i) {
    ASSERT_EQ(a.fetches[i].size(), b.fetches[i].size());
    for (size_t k = 0; k < a.fetches[i].size(); ++k)
      ASSERT_NEAR(a.fetches[i][k], b.fetches[i][k], 1e-5) << i << "," << k;
  }
}

// A dense layer with its loss and the gradient of its weight.
struct Net {
  Graph graph;
  Tensor x, w, y, loss, dw;
  Net() {
    x = graph.placeholder("x", DType::F32, {Dim::batch(), 24});
    w = graph.variable("w", DType::F32, {24, 16}, Init::zeros());
    y = relu(matmul(x, w));
    loss = reduce_mean(mul(y, y));
    dw = gradients(loss, std::vector{w})[0].value;
  }
};

TEST(LowerInParts, TheSameAsTheWhole) {
  Net net;
  const Ran whole = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, 0));
  for (const int64_t part : {4, 3, 1}) {
    const Ran parts = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, part));
    ASSERT_FALSE(parts.program.tasks.empty()) << part;
    EXPECT_EQ(parts.program.part_samples, part);
    EXPECT_EQ(parts.program.problem.part_samples, part);
    expect_close(parts, whole);
  }
}

TEST(LowerInParts, LaterPartsAddAndASmallerLastOneHasItsOwnKernel) {
  Net net;
  const auto kernels = [&](int64_t part) {
    const Ran ran = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, part));
    std::pair<int64_t, int64_t> found;
    for (const ProgramTask& task : ran.program.tasks) {
      found.first += task.later_kernel != nullptr ? 1 : 0;
      found.second += task.last_kernel != nullptr ? 1 : 0;
    }
    return found;
  };
  EXPECT_GE(kernels(4).first, 2);  // the loss and dw
  EXPECT_EQ(kernels(4).second, 0);
  EXPECT_EQ(kernels(3).first, kernels(4).first);
  EXPECT_GE(kernels(3).second, 4);
}

TEST(LowerInParts, SizesAreThoseOfOneSample) {
  Net net;
  const Ran ran = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, 2));
  for (const Buffer& buffer : ran.program.problem.buffers) {
    EXPECT_TRUE(buffer.name != "x" || buffer.per_sample_bytes == 24 * 4);
    EXPECT_TRUE(buffer.name != "w" || buffer.fixed_bytes == 24 * 16 * 4);
  }
  // Feeds are handed over whole.
  EXPECT_EQ(ran.program.feeds.front().type.dims, (Dims{8, 24}));
}

TEST(LowerInParts, WhatMixesSamplesWaitsForTheirRows) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6});
  const Tensor y = softmax(x);
  const Tensor z = softmax(y, 0);  // over the samples
  const Tensor sum = reduce_sum(mul(z, z));
  LowerOptions in_parts = options(graph, 8, 2);
  for (NodeId id = graph.value(z.id()).producer; id < static_cast<NodeId>(graph.nodes().size()); ++id)
    in_parts.waits[static_cast<size_t>(id)] = true;
  in_parts.fuse = false;
  VariableLayouts layouts;
  KernelStore kernels;
  const auto program = lower_in_parts(graph, std::vector{sum.id()}, {}, in_parts, layouts, kernels);
  ASSERT_TRUE(program);
  for (const Buffer& buffer : program->problem.buffers) EXPECT_TRUE(buffer.name != y.name() || buffer.is_collected);
}

TEST(LowerInParts, ImagesInBlocks) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3, 8, 8});
  const Tensor w = graph.variable("w", DType::F32, {16, 3, 3, 3}, Init::zeros());
  const Tensor y = conv2d(x, w, {}, Window::padded(1));
  const Tensor loss = reduce_mean(mul(y, y));
  const std::vector<Tensor> wanted{loss, gradients(loss, std::vector{w})[0].value};
  const Ran whole = run_once(graph, wanted, options(graph, 6, 0));
  const Ran parts = run_once(graph, wanted, options(graph, 6, 2));
  ASSERT_FALSE(parts.program.tasks.empty());
  expect_close(parts, whole);
}

}  // namespace
}  // namespace plimsoll
