#include "lower/predict.h"

#include <gtest/gtest.h>

#include "kernels/winograd.h"
#include "lower/lower.h"
#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

using namespace kernels;
using namespace ops;
using namespace plan;

constexpr MachineSpeed kSpeed{.flops_per_s = 100e9, .bytes_per_s = 10e9, .cache_bytes = 0, .task_ns = 500};

Program lower_one(const Graph& graph, Tensor y, int64_t batch) {
  VariableLayouts layouts;
  KernelStore kernels;
  LowerOptions options;
  options.batch = batch;
  options.speed = kSpeed;
  return lower::lower(graph.body(), std::vector{y.id()}, {}, options, layouts, kernels);
}

// The one task of that operator.
size_t task_of(const Program& program, std::string_view op) {
  size_t found = program.tasks.size();
  for (size_t i = 0; i < program.tasks.size(); ++i)
    if (program.tasks[i].op != nullptr && program.tasks[i].op->name == op) found = i;
  EXPECT_LT(found, program.tasks.size());
  return found;
}

double task_ns(const Program& program, size_t task, int64_t samples) {
  const Task& t = program.problem.tasks[task];
  return t.fixed_ns + t.per_sample_ns * static_cast<double>(samples);
}

TEST(Predict, TheSlowerOfComputingAndMoving) {
  EXPECT_DOUBLE_EQ(predict_ns({.flops = 1e9, .efficiency = 1, .bytes = 1}, kSpeed), 500 + 1e7);
  EXPECT_DOUBLE_EQ(predict_ns({.flops = 1e9, .efficiency = 0.5, .bytes = 1}, kSpeed), 500 + 2e7);
  EXPECT_DOUBLE_EQ(predict_ns({.flops = 1, .efficiency = 1, .bytes = 1e8}, kSpeed), 500 + 1e7);
  EXPECT_DOUBLE_EQ(predict_ns({}, kSpeed), 500);
}

TEST(Predict, AConvolutionTakesItsFlopsAtItsEfficiency) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 64, 28, 28});
  const Tensor w = graph.variable("w", DType::F32, {64, 64, 5, 5}, Init::zeros());
  const Program program = lower_one(graph, conv2d(x, w, {}, Window::padded(2)), 4);
  const size_t task = task_of(program, "conv2d");
  const Cost& cost = program.tasks[task].own.cost;
  EXPECT_DOUBLE_EQ(cost.flops, 2.0 * 4 * 64 * 28 * 28 * 64 * 25);
  EXPECT_GT(cost.efficiency, 0.3);
  EXPECT_LE(cost.efficiency, 1.1);
  EXPECT_NEAR(task_ns(program, task, 4), 500 + cost.flops / cost.efficiency / 100, 1);
}

// Winograd's algorithm needs a quarter of the products that are counted.
TEST(Predict, AConvolutionOfThreeByThreeIsFasterThanItsFlops) {
  if (!Winograd::suits({4, 64, 64, 28, 28, 28, 28, 1, 1})) GTEST_SKIP() << "not on this processor";
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 64, 28, 28});
  const Tensor w = graph.variable("w", DType::F32, {64, 64, 3, 3}, Init::zeros());
  const Program program = lower_one(graph, conv2d(x, w, {}, Window::padded(1)), 4);
  const Cost& cost = program.tasks[task_of(program, "conv2d")].own.cost;
  EXPECT_GT(cost.efficiency, 1.1);
  EXPECT_LT(cost.efficiency, 4);
}

TEST(Predict, DepthwiseConvolutionsReachLessThanDenseOnes) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 64, 28, 28});
  const Tensor dense = graph.variable("dense", DType::F32, {64, 64, 3, 3}, Init::zeros());
  const Tensor apart = graph.variable("apart", DType::F32, {64, 1, 3, 3}, Init::zeros());
  Window window = Window::padded(1);
  const Program one = lower_one(graph, conv2d(x, dense, {}, window), 4);
  window.groups = 64;
  const Program other = lower_one(graph, conv2d(x, apart, {}, window), 4);
  EXPECT_LT(other.tasks[task_of(other, "conv2d")].own.cost.efficiency,
            one.tasks[task_of(one, "conv2d")].own.cost.efficiency / 1.5);
}

TEST(Predict, EveryOperandMovesOnceUnlessTheOperatorSaysOtherwise) {
  const ConcreteType type{DType::F32, {1000}, {}, false};
  const std::vector<ConcreteType> in{type, type}, out{type};
  const Attrs attrs;
  const Facts facts{attrs, in, out, 1, 1, false};
  EXPECT_DOUBLE_EQ(cost_of(Op{.name = "silent"}, facts).bytes, 3 * 4000);
  const Op twice{.name = "twice", .cost = [](const Facts& f) { return Cost{.bytes = 2 * f.operand_bytes()}; }};
  EXPECT_DOUBLE_EQ(cost_of(twice, facts).bytes, 6 * 4000);
}

TEST(Predict, SmallTensorsMoveAtTheSpeedOfTheCaches) {
  MachineSpeed speed = kSpeed;
  speed.cache_bytes = 1e6;
  speed.cache_bytes_per_s = 20e9;
  EXPECT_DOUBLE_EQ(predict_ns({.bytes = 1e6}, speed), 500 + 5e4);
  EXPECT_DOUBLE_EQ(predict_ns({.bytes = 2e6}, speed), 500 + 2e5);
}

// Every micro-batch reads all weights, but only its own images.
TEST(Predict, PartsPayAgainForWhatDoesNotGrowWithTheBatch) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 512});
  const Tensor w = graph.variable("w", DType::F32, {512, 512}, Init::zeros());
  const Program product = lower_one(graph, matmul(x, w), 8);
  const size_t matmul_task = task_of(product, "matmul");
  EXPECT_GT(2 * task_ns(product, matmul_task, 4), 1.5 * task_ns(product, matmul_task, 8));
  const Program map = lower_one(graph, relu(x), 8);
  const size_t relu_task = task_of(map, "relu");
  EXPECT_NEAR(2 * task_ns(map, relu_task, 4), task_ns(map, relu_task, 8) + kSpeed.task_ns, 1);
}

}  // namespace
}  // namespace plimsoll::lower
