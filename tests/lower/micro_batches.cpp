// Lowering a step that runs in micro-batches: sums go on from one to the next, a smaller last one has kernels of its
// own, and tasks that mix samples wait for the rows of all.
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "lower/run_once.h"
#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

using namespace ops;
using namespace plan;

using testing::Ran;
using testing::run_once;

LowerOptions options(const Graph& graph, int64_t batch, int64_t micro_batch) {
  LowerOptions options;
  options.batch = batch;
  options.micro_batch = micro_batch;
  options.waits.assign(graph.body().nodes().size(), false);
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

TEST(LowerInMicroBatches, TheSameAsTheWhole) {
  Net net;
  const Ran whole = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, 0));
  for (const int64_t samples : {4, 3, 1}) {
    const Ran cut = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, samples));
    ASSERT_FALSE(cut.program.tasks.empty()) << samples;
    EXPECT_EQ(cut.program.micro_batch, samples);
    EXPECT_EQ(cut.program.problem.micro_batch, samples);
    expect_close(cut, whole);
  }
}

TEST(LowerInMicroBatches, LaterOnesAddAndASmallerLastOneHasItsOwnKernel) {
  Net net;
  const auto kernels = [&](int64_t samples) {
    const Ran ran = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, samples));
    std::pair<int64_t, int64_t> found;
    for (const ProgramTask& task : ran.program.tasks) {
      found.first += task.own.later != nullptr ? 1 : 0;
      found.second += task.own.last != nullptr ? 1 : 0;
    }
    return found;
  };
  EXPECT_GE(kernels(4).first, 2);  // the loss and dw
  EXPECT_EQ(kernels(4).second, 0);
  EXPECT_EQ(kernels(3).first, kernels(4).first);
  EXPECT_GE(kernels(3).second, 4);
}

TEST(LowerInMicroBatches, SizesAreThoseOfOneSample) {
  Net net;
  const Ran ran = run_once(net.graph, {net.loss, net.dw}, options(net.graph, 8, 2));
  for (const Buffer& buffer : ran.program.problem.buffers) {
    EXPECT_TRUE(buffer.name != "x" || buffer.per_sample_bytes == 24 * 4);
    EXPECT_TRUE(buffer.name != "w" || buffer.fixed_bytes == 24 * 16 * 4);
  }
  // Feeds are handed over whole.
  EXPECT_EQ(ran.program.feeds.front().type.dims, (Dims{8, 24}));
}

TEST(LowerInMicroBatches, WhatMixesSamplesWaitsForTheirRows) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6});
  const Tensor y = softmax(x);
  const Tensor z = softmax(y, 0);  // over the samples
  const Tensor sum = reduce_sum(mul(z, z));
  LowerOptions in_micro_batches = options(graph, 8, 2);
  for (NodeId id = graph.body().value(z.id()).producer; id < static_cast<NodeId>(graph.body().nodes().size()); ++id)
    in_micro_batches.waits[static_cast<size_t>(id)] = true;
  in_micro_batches.fuse = false;
  VariableLayouts layouts;
  KernelStore kernels;
  const auto program =
      lower_in_micro_batches(graph.body(), std::vector{sum.id()}, {}, in_micro_batches, layouts, kernels);
  ASSERT_TRUE(program);
  for (const Buffer& buffer : program->problem.buffers) EXPECT_TRUE(buffer.name != y.name() || buffer.is_collected);
}

// Each micro-batch is normalised with its own statistics; their mean moves the running ones, once.
TEST(LowerInMicroBatches, BatchNormByName) {
  constexpr int64_t kChannels = 3, kBatch = 5, kMicroBatch = 2;
  constexpr double kMomentum = 0.9;
  Graph graph;
  graph.allow_split("batch_norm");
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kChannels});
  const auto variable = [&](const char* name) { return graph.variable(name, DType::F32, {kChannels}, Init::zeros()); };
  const Tensor gamma = variable("gamma"), beta = variable("beta"), mean = variable("mean"), spread = variable("spread");
  const Tensor y = batch_norm(x, gamma, beta, mean, spread, true, kMomentum, 1e-3);
  const Tensor loss = reduce_sum(mul(y, y));
  std::vector<NodeId> updates;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.body().nodes().size()); ++id)
    if (graph.body().node(id).op->traits.updates != 0) updates.push_back(id);
  const Tensor dgamma = gradients(loss, std::vector{gamma})[0].value;
  const Ran ran = run_once(graph, {y, dgamma}, options(graph, kBatch, kMicroBatch), updates);
  ASSERT_FALSE(ran.program.tasks.empty());

  for (int64_t c = 0; c < kChannels; ++c) {
    const double scale = testing::pattern(gamma.id(), c), shift = testing::pattern(beta.id(), c);
    double running_mean = 0, running_spread = 0, slope = 0;
    for (int64_t first = 0; first < kBatch; first += kMicroBatch) {
      const int64_t count = std::min(kMicroBatch, kBatch - first);
      const auto at = [&](int64_t i) { return testing::pattern(x.id(), (first + i) * kChannels + c); };
      double middle = 0, square = 0;
      for (int64_t i = 0; i < count; ++i) middle += at(i) / static_cast<double>(count);
      for (int64_t i = 0; i < count; ++i) square += std::pow(at(i) - middle, 2) / static_cast<double>(count);
      for (int64_t i = 0; i < count; ++i) {
        const double unit = (at(i) - middle) / std::sqrt(square + 1e-3), expected = unit * scale + shift;
        EXPECT_NEAR(ran.fetches[0][static_cast<size_t>((first + i) * kChannels + c)], expected, 1e-5) << first + i;
        slope += 2 * expected * unit;
      }
      running_mean += middle * static_cast<double>(count) / kBatch;
      running_spread += square * static_cast<double>(count) / kBatch;
    }
    const auto i = static_cast<size_t>(c);
    EXPECT_NEAR(ran.fetches[1][i], slope, 1e-4) << "summed over the micro-batches";
    const auto moved = [&](Tensor variable, double to) {
      return kMomentum * testing::pattern(variable.id(), c) + (1 - kMomentum) * to;
    };
    EXPECT_NEAR(ran.variables.at(mean.id())[i], moved(mean, running_mean), 1e-5) << "moved once";
    EXPECT_NEAR(ran.variables.at(spread.id())[i], moved(spread, running_spread), 1e-5);
  }
}

TEST(LowerInMicroBatches, BatchNormForbidsItElsewhere) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3});
  const auto variable = [&](const char* name) { return graph.variable(name, DType::F32, {3}, Init::zeros()); };
  const Tensor y = batch_norm(x, variable("gamma"), variable("beta"), variable("mean"), variable("spread"), true);
  EXPECT_THROW(run_once(graph, {y}, options(graph, 4, 2)), Error);
}

// The variant of a task adds from one micro-batch to the next as the task itself does.
TEST(LowerInMicroBatches, AVariantGivesTheSameBits) {
  constexpr int64_t kClasses = 500;
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6});
  const Tensor kernel = graph.variable("kernel", DType::F32, {kClasses, 6}, Init::zeros());
  const Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
  const Tensor loss = linear_cross_entropy(x, kernel, labels, true);
  const std::vector<Tensor> wanted{loss, gradients(loss, std::vector{kernel})[0].value};
  for (const int64_t samples : {0, 4, 3}) {
    const Ran own = run_once(graph, wanted, options(graph, 8, samples));
    ASSERT_FALSE(own.program.tasks.empty()) << samples;
    const Ran slim = run_once(graph, wanted, options(graph, 8, samples), {}, own.plan.arena_bytes - 1);
    const auto variants = [](const Ran& ran) {
      return std::count_if(ran.plan.actions.begin(), ran.plan.actions.end(),
                           [](const Action& s) { return s.variant >= 0; });
    };
    EXPECT_EQ(variants(own), 0);
    EXPECT_EQ(variants(slim), std::ssize(slim.plan.micro_batches));
    EXPECT_EQ(slim.fetches, own.fetches);
  }
}

TEST(LowerInMicroBatches, ImagesInBlocks) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3, 8, 8});
  const Tensor w = graph.variable("w", DType::F32, {16, 3, 3, 3}, Init::zeros());
  const Tensor y = conv2d(x, w, {}, Window::padded(1));
  const Tensor loss = reduce_mean(mul(y, y));
  const std::vector<Tensor> wanted{loss, gradients(loss, std::vector{w})[0].value};
  const Ran whole = run_once(graph, wanted, options(graph, 6, 0));
  for (const int64_t samples : {2, 4}) {
    const Ran cut = run_once(graph, wanted, options(graph, 6, samples));
    ASSERT_FALSE(cut.program.tasks.empty()) << samples;
    expect_close(cut, whole);
  }
}

bool is_possible(const Graph& graph, Tensor fetch) {
  return !run_once(graph, {fetch}, options(graph, 8, 2)).program.tasks.empty();
}

// Feeds and fetches are stored micro-batch after micro-batch.
TEST(LowerInMicroBatches, SamplesAreOutermostInFeedsAndFetches) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6});
  const Tensor columns = transpose(x, {1, 0});
  const Tensor sum = reduce_sum(mul(columns, columns));
  EXPECT_TRUE(is_possible(graph, sum));
  EXPECT_FALSE(is_possible(graph, columns));
  const Tensor inside = graph.placeholder("inside", DType::F32, {6, Dim::batch()});
  EXPECT_FALSE(is_possible(graph, reduce_sum(mul(inside, inside))));
}

TEST(LowerInMicroBatches, AViewThatMovesTheBatchForbidsThem) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6});
  const Tensor columns = transpose(x, {1, 0});
  const Tensor moved = reshape(columns, {Dim::batch(), 6});  // a row holds elements of several samples
  EXPECT_FALSE(is_possible(graph, reduce_sum(mul(moved, moved))));
  const Tensor kept = reshape(columns, {2, 3, Dim::batch()});
  const Tensor sum = reduce_sum(mul(kept, kept));
  ASSERT_TRUE(is_possible(graph, sum));
  expect_close(run_once(graph, {sum}, options(graph, 8, 2)), run_once(graph, {sum}, options(graph, 8, 0)));
}

}  // namespace
}  // namespace plimsoll::lower
