// Each rewrite: the same result, fewer tasks and no more bytes.
#include "lower/fuse.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "autodiff/gradients.h"
#include "lower/lower.h"
#include "memory/arena.h"
#include "ops/ops.h"
#include "plan/make_plan.h"
#include "run/executor.h"

namespace plimsoll {
namespace {

struct Ran {
  std::vector<std::vector<float>> fetches;
  size_t tasks = 0;
  Bytes buffer_bytes = 0;
};

// Lowers, plans and runs the graph once, placeholders and variables filled with a fixed pattern.
Ran run(const Graph& graph, const std::vector<ValueId>& fetches, bool fused) {
  constexpr int64_t kBatch = 4;
  VariableLayouts layouts;
  KernelStore kernels;
  LowerOptions options;
  options.batch = kBatch;
  options.fuse = fused;
  const Program program = lower(graph, fetches, {}, options, layouts, kernels);
  Limits limits;
  limits.batch = kBatch;
  const Plan plan = std::get<Plan>(make_plan(program.problem, limits));
  Arena arena(plan.arena_bytes);
  arena.commit(plan.arena_bytes);
  const auto place = [&](BufferId buffer) {
    Bytes offset = -1;
    for (const Life& life : plan.lives)
      if (life.buffer == buffer) offset = life.offset;
    return reinterpret_cast<float*>(arena.data() + offset);
  };
  for (const auto* ports : {&program.feeds, &program.variables}) {
    for (const Port& port : *ports)
      for (int64_t i = 0; i < port.type.count(); ++i)
        place(port.buffer)[i] = std::sin(static_cast<float>(i * 7 + port.value));
  }
  for (const Port& port : program.constants)
    std::memcpy(place(port.buffer), graph.constant_of(port.value).bytes.data(),
                graph.constant_of(port.value).bytes.size());
  Executor executor(program, plan, arena.data());
  executor.run({});
  Ran ran;
  ran.tasks = program.tasks.size();
  for (const Buffer& buffer : program.problem.buffers) ran.buffer_bytes += placed_bytes(buffer, kBatch);
  for (const Port& port : program.fetches)
    ran.fetches.emplace_back(place(port.buffer), place(port.buffer) + port.type.count());
  return ran;
}

void expect_better(const Graph& graph, const std::vector<Tensor>& fetches, size_t fewer_tasks) {
  std::vector<ValueId> ids;
  for (const Tensor& fetch : fetches) ids.push_back(fetch.id());
  const Ran plain = run(graph, ids, false);
  const Ran fused = run(graph, ids, true);
  EXPECT_EQ(fused.tasks + fewer_tasks, plain.tasks);
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

TEST(Fuse, ElementwiseChains) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 40});
  const Tensor row = graph.variable("row", DType::F32, {40}, Init::zeros());
  const Tensor y = relu(add(mul(x, row), scale(x, 0.5, 1)));
  expect_better(graph, {y}, 3);
}

TEST(Fuse, KeepsWhatOthersRead) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 40});
  const Tensor z = scale(x, 2);
  const Tensor y = relu(z);
  EXPECT_EQ(run(graph, {y.id(), z.id()}, true).tasks, 2U);
}

}  // namespace
}  // namespace plimsoll
