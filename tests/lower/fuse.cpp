// Each rewrite: the same result, fewer tasks and no more bytes.
#include "lower/fuse.h"

#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "lower/run_once.h"
#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

using namespace ops;
using namespace plan;

using testing::Ran;
using testing::run_once;

Ran run(const Graph& graph, const std::vector<Tensor>& fetches, bool fused) {
  LowerOptions options;
  options.batch = 4;
  options.fuse = fused;
  options.masks = false;
  return run_once(graph, fetches, options);
}

void expect_better(const Graph& graph, const std::vector<Tensor>& fetches, size_t fewer_tasks) {
  const Ran plain = run(graph, fetches, false);
  const Ran fused = run(graph, fetches, true);
  EXPECT_EQ(fused.program.tasks.size() + fewer_tasks, plain.program.tasks.size());
  EXPECT_LT(fused.buffer_bytes, plain.buffer_bytes);
  for (size_t i = 0; i < plain.fetches.size(); ++i)
    for (size_t k = 0; k < plain.fetches[i].size(); ++k)
      ASSERT_NEAR(fused.fetches[i][k], plain.fetches[i][k], 1e-5) << "fetch " << i << " element " << k;
}

TEST(Fuse, ActivationIntoMatmul) {
  for (Tensor (*activation)(Tensor, Name) : {relu, sigmoid, tanh, relu6}) {
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 16});
    const Tensor w = graph.variable("w", DType::F32, {16, 24}, Init::zeros());
    const Tensor b = graph.variable("b", DType::F32, {24}, Init::zeros());
    expect_better(graph, {activation(dense(x, w, b), {})}, 1);
  }
}

TEST(Fuse, ActivationIntoConvolution) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3, 9, 9});
  const Tensor w = graph.variable("w", DType::F32, {16, 3, 3, 3}, Init::zeros());
  const Tensor b = graph.variable("b", DType::F32, {16}, Init::zeros());
  expect_better(graph, {relu(conv2d(x, w, b, Window::padded(1)))}, 1);
}

TEST(Fuse, ActivationAndItsGradientIntoBatchNorm) {
  for (Tensor (*activation)(Tensor, Name) : {relu, relu6}) {
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8, 5, 5});
    const Tensor seed = graph.placeholder("seed", DType::F32, x.shape());
    const auto parameter = [&](const char* name) { return graph.variable(name, DType::F32, {8}, Init::zeros()); };
    const Tensor gamma = parameter("gamma");
    const Tensor beta = parameter("beta");
    const Tensor y = activation(batch_norm(x, gamma, beta, parameter("mean"), parameter("variance"), true), {});
    const std::vector<Tensor> wrt{x, gamma, beta};
    const std::vector<Gradient> grads = gradients(y, wrt, seed);
    expect_better(graph, {grads[0].value, grads[1].value, grads[2].value}, 2);
  }
}

TEST(Fuse, ActivationIntoTheInferenceOfBatchNorm) {
  for (Tensor (*activation)(Tensor, Name) : {relu, relu6}) {
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8, 5, 5});
    const auto parameter = [&](const char* name) { return graph.variable(name, DType::F32, {8}, Init::zeros()); };
    const Tensor deviation = parameter("deviation");  // squares are variances: the test's numbers may be negative
    const Tensor y =
        batch_norm(x, parameter("gamma"), parameter("beta"), parameter("mean"), mul(deviation, deviation), false);
    expect_better(graph, {activation(y, {})}, 1);
  }
}

TEST(Fuse, MaskOfTheActivationBeforePoolingIsSpread) {
  for (Tensor (*activation)(Tensor, Name) : {relu, relu6}) {
    for (const Window& window : {Window::strided(2), Window::strided(1, 1)}) {
      Graph graph;
      const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8, 6, 6});
      const Tensor y = activation(scale(x, 9), {});
      const Tensor p = max_pool(y, {3, 3}, window);
      const Tensor seed = graph.placeholder("seed", DType::F32, p.shape());
      const Tensor dx = gradients(p, std::vector{x}, seed)[0].value;
      const Ran plain = run(graph, {dx}, false);
      const Ran fused = run(graph, {dx}, true);
      EXPECT_EQ(fused.fetches, plain.fetches);
      EXPECT_LT(fused.buffer_bytes, plain.buffer_bytes);
      // The output of the activation is read by the pooling alone.
      for (const Ran* ran : {&plain, &fused}) {
        const Problem& problem = ran->program.problem;
        int64_t readers = 0;
        for (const Task& task : problem.tasks)
          for (const BufferId id : task.reads)
            if (problem.buffers[static_cast<size_t>(id)].name == y.name()) ++readers;
        EXPECT_EQ(readers, ran == &plain ? 2 : 1);
      }
    }
  }
}

// A NaN must stay NaN where an activation is fused into the operator that made it.
TEST(Fuse, KeepsWhatIsNotANumber) {
  for (Tensor (*activation)(Tensor, Name) : {relu, relu6}) {
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
    const Tensor w = graph.variable("w", DType::F32, {8, 8}, Init::zeros());
    const auto parameter = [&](const char* name) { return graph.variable(name, DType::F32, {8}, Init::zeros()); };
    const Tensor broken = log(x);  // of negative numbers
    const Tensor product = activation(matmul(broken, w), {});
    const Tensor norm = activation(
        batch_norm(broken, parameter("gamma"), parameter("beta"), parameter("mean"), parameter("variance"), true), {});
    const Ran plain = run(graph, {product, norm}, false);
    const Ran fused = run(graph, {product, norm}, true);
    EXPECT_LT(fused.program.tasks.size(), plain.program.tasks.size());
    int64_t broken_numbers = 0;
    for (size_t i = 0; i < 2; ++i) {
      for (size_t k = 0; k < plain.fetches[i].size(); ++k) {
        EXPECT_EQ(std::isnan(fused.fetches[i][k]), std::isnan(plain.fetches[i][k]))
            << "fetch " << i << " element " << k;
        broken_numbers += std::isnan(plain.fetches[i][k]) ? 1 : 0;
      }
    }
    EXPECT_GT(broken_numbers, 0);
  }
}

TEST(Fuse, ElementwiseChains) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 40});
  const Tensor row = graph.variable("row", DType::F32, {40}, Init::zeros());
  const Tensor y = relu(add(mul(x, row), scale(x, 0.5, 1)));
  expect_better(graph, {y}, 3);
}

// A loss over several tiles, with edges in both directions.
struct LinearLoss {
  static constexpr int64_t kRows = 260, kWidth = 3, kClasses = 2100;
  Graph graph;
  Tensor x, kernel, loss;

  explicit LinearLoss(bool transposed) {
    std::vector<int32_t> labels(kRows);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * 31 % kClasses);
    x = graph.placeholder("x", DType::F32, {kRows, kWidth});
    kernel = graph.variable("kernel", DType::F32, transposed ? Shape{kClasses, kWidth} : Shape{kWidth, kClasses},
                            Init::zeros());
    const Tensor known = graph.constant(DType::I32, {kRows}, std::as_bytes(std::span(labels)));
    loss = linear_cross_entropy(x, kernel, known, transposed);
  }
  std::vector<Tensor> with_gradients(Tensor of) const {
    std::vector<Tensor> fetches{of};
    for (const Gradient& gradient : gradients(of, std::vector{x, kernel})) fetches.push_back(gradient.value);
    return fetches;
  }
};

TEST(Fuse, LossAndItsGradientGiveTheSameBits) {
  for (const bool transposed : {false, true}) {
    const LinearLoss net(transposed);
    const std::vector<Tensor> fetches = net.with_gradients(net.loss);
    const Ran apart = run(net.graph, fetches, false), fused = run(net.graph, fetches, true);
    EXPECT_EQ(apart.count("linear_cross_entropy_with_grad"), 0);
    EXPECT_EQ(fused.count("linear_cross_entropy_with_grad"), 1);
    EXPECT_EQ(fused.count("linear_cross_entropy_grad"), 0);
    EXPECT_EQ(fused.fetches, apart.fetches);
    EXPECT_TRUE(std::isfinite(fused.fetches[0][0]));
  }
}

TEST(Fuse, ALossWhoseGradientIsMadeLaterStaysApart) {
  const LinearLoss net(true);
  const std::vector<Tensor> fetches = net.with_gradients(scale(net.loss, 0.5));
  const Ran apart = run(net.graph, fetches, false), asked = run(net.graph, fetches, true);
  EXPECT_EQ(asked.count("linear_cross_entropy_with_grad"), 0);
  EXPECT_EQ(asked.fetches, apart.fetches);
}

TEST(Fuse, KeepsWhatOthersRead) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 40});
  const Tensor z = scale(x, 2);
  const Tensor y = relu(z);
  EXPECT_EQ(run(graph, {y, z}, true).program.tasks.size(), 2U);
}

}  // namespace
}  // namespace plimsoll::lower
