#include "lower/lower.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "lower/fuse.h"
#include "ops/ops.h"
#include "plan/problem.h"

namespace plimsoll::lower {
namespace {

using namespace ops;
using namespace plan;

Program lower_all(const Graph& graph, const std::vector<ValueId>& fetches, const std::vector<NodeId>& updates = {},
                  bool fused = true, int64_t batch = 4) {
  VariableLayouts layouts;
  KernelStore kernels;
  LowerOptions options;
  options.batch = batch;
  options.fuse = fused;
  return lower::lower(graph.body(), fetches, updates, options, layouts, kernels);
}

const Buffer& buffer(const Program& program, const std::string& name) {
  for (const Buffer& b : program.problem.buffers)
    if (b.name == name) return b;
  throw std::runtime_error("no buffer " + name);
}

TEST(Lower, KeepsOnlyWhatIsNeeded) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  const Tensor y = relu(x);
  add(y, y);
  const Program program = lower_all(graph, {y.id()});
  EXPECT_EQ(program.tasks.size(), 1U);
  EXPECT_EQ(program.feeds.size(), 1U);
  EXPECT_NO_THROW(require_valid(program.problem));
}

TEST(Lower, SizesGrowWithTheBatchOrDoNot) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  const Tensor w = graph.variable("w", DType::F32, {8, 16}, Init::zeros());
  const Tensor y = matmul(x, w);
  const Program program = lower_all(graph, {y.id()});
  EXPECT_EQ(buffer(program, "w").fixed_bytes, 8 * 16 * 4);
  EXPECT_EQ(buffer(program, "w").kind, BufferKind::Variable);
  EXPECT_EQ(buffer(program, "x").per_sample_bytes, 8 * 4);
  EXPECT_EQ(buffer(program, "x").kind, BufferKind::Input);
  EXPECT_EQ(buffer(program, "matmul").per_sample_bytes, 16 * 4);
  EXPECT_EQ(buffer(program, "matmul").kind, BufferKind::Output);
}

TEST(Lower, ViewsShareTheBuffer) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 2, 4});
  const Tensor y = relu(flatten(x));
  const Program program = lower_all(graph, {y.id()});
  EXPECT_EQ(program.tasks.size(), 1U);
  EXPECT_EQ(program.problem.buffers.size(), 2U);
}

TEST(Lower, EqualLayersShareOneKernel) {
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  for (int i = 0; i < 10; ++i)
    x = matmul(x, graph.variable("w" + std::to_string(i), DType::F32, {8, 8}, Init::zeros()));
  const Program program = lower_all(graph, {x.id()});
  ASSERT_EQ(program.tasks.size(), 10U);
  for (const ProgramTask& task : program.tasks) EXPECT_EQ(task.own.first, program.tasks[0].own.first);
}

TEST(Lower, ConvolutionsStayInTheirLayout) {
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 16, 8, 8});
  for (int i = 0; i < 3; ++i) {
    const Tensor w = graph.variable("w" + std::to_string(i), DType::F32, {16, 16, 3, 3}, Init::zeros());
    x = relu(conv2d(x, w, {}, Window::padded(1)));
  }
  const Program program = lower_all(graph, {x.id()});
  const auto reorders = std::count_if(program.tasks.begin(), program.tasks.end(),
                                      [](const ProgramTask& task) { return task.origin < 0; });
  // One reorder into the blocked layout at the start and one out of it at the end, none between.
  EXPECT_LE(reorders, 2);
  EXPECT_EQ(program.tasks.size() - static_cast<size_t>(reorders), 3U);
}

TEST(Lower, ActivationIsFusedOnlyWhenNobodyElseNeedsTheValue) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  const Tensor w = graph.variable("w", DType::F32, {8, 8}, Init::zeros());
  const Tensor z = matmul(x, w);
  const Tensor y = relu(z);
  EXPECT_EQ(lower_all(graph, {y.id()}).tasks.size(), 1U);
  EXPECT_EQ(lower_all(graph, {y.id()}, {}, false).tasks.size(), 2U);
  EXPECT_EQ(lower_all(graph, {y.id(), z.id()}).tasks.size(), 2U);
}

TEST(Lower, VariablesHaveTheSameBuffersInEveryProgram) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  const Tensor a = graph.variable("a", DType::F32, {8, 8}, Init::zeros());
  const Tensor b = graph.variable("b", DType::F32, {8, 8}, Init::zeros());
  const Program one = lower_all(graph, {matmul(x, a).id()});
  const Program two = lower_all(graph, {matmul(x, b).id()}, {}, true, 7);
  ASSERT_EQ(one.variables.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(one.variables[i].buffer, two.variables[i].buffer);
    EXPECT_EQ(one.problem.buffers[i], two.problem.buffers[i]);
  }
}

}  // namespace
}  // namespace plimsoll::lower
