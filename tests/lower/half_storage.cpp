// What is kept in 16 bits and what is not, as buffers and tasks of the lowered step.
#include "lower/half_storage.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "lower/lower.h"
#include "ops/ops.h"
#include "plan/problem.h"

namespace plimsoll::lower {
namespace {

using namespace plan;

constexpr int64_t kBatch = 64;
constexpr int64_t kWidth = 256;  // a layer is exactly at the least size

Tensor layer(Tensor x, const std::string& name, int64_t width = kWidth) {
  const Tensor w = x.graph().variable(name, DType::F32, {x.shape()[1], width}, Init::zeros());
  return matmul(x, w, false, false, name + "_out");
}

Program lower_training(Graph& graph, Tensor loss, bool half, const std::vector<Tensor>& also = {}) {
  std::vector<Tensor> weights;
  for (const graph::Variable& variable : graph.body().variables()) weights.emplace_back(graph, variable.value);
  std::vector<ValueId> fetches{loss.id()};
  for (const Tensor& fetch : also) fetches.push_back(fetch.id());
  for (const Gradient& gradient : gradients(loss, weights)) fetches.push_back(gradient.value.id());
  VariableLayouts layouts;
  KernelStore kernels;
  LowerOptions options;
  options.batch = kBatch;
  if (half) options.values = DType::BF16;
  return lower::lower(graph.body(), fetches, {}, options, layouts, kernels);
}

const Buffer* find(const Program& program, const std::string& name) {
  const auto& buffers = program.problem.buffers;
  const auto at = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.name == name; });
  return at == buffers.end() ? nullptr : &*at;
}

Tensor input(Graph& graph) { return graph.placeholder("x", DType::F32, {Dim::batch(), kWidth}); }
Tensor loss_of(Tensor y) { return reduce_mean(mul(y, y), {0, 1}); }

TEST(HalfStorage, HoldsSixteenBitsBetweenForwardAndBackward) {
  Graph graph;
  const Tensor a = tanh(layer(input(graph), "a"), "a_tanh");
  const Tensor loss = loss_of(layer(layer(tanh(layer(a, "b"), "b_tanh"), "c"), "d"));
  EXPECT_EQ(lower_training(graph, loss, false).half_values, 0);
  Graph again;
  const Tensor a2 = tanh(layer(input(again), "a"), "a_tanh");
  const Tensor loss2 = loss_of(layer(layer(tanh(layer(a2, "b"), "b_tanh"), "c"), "d"));
  const Program program = lower_training(again, loss2, true);
  EXPECT_GE(program.half_values, 2);
  EXPECT_NO_THROW(require_valid(program.problem));
  const Buffer* wide = find(program, "a_tanh");
  const Buffer* half = find(program, "a_tanh/half");
  const Buffer* rounded = find(program, "a_tanh/rounded");
  ASSERT_TRUE(wide && half && rounded && find(program, "a_tanh/again"));
  EXPECT_EQ(wide->per_sample_bytes, 2 * half->per_sample_bytes);
  EXPECT_EQ(wide->per_sample_bytes, rounded->per_sample_bytes);
  // The value as it was made is read by the rounding alone, so that every reader sees the same numbers.
  const auto id = static_cast<BufferId>(wide - program.problem.buffers.data());
  for (const Task& task : program.problem.tasks) {
    if (std::count(task.reads.begin(), task.reads.end(), id) == 0) continue;
    EXPECT_EQ(task.name, "a_tanh/half");
    EXPECT_TRUE(task.recomputable);
  }
}

TEST(HalfStorage, LeavesInputsVariablesFetchesAndWhatTheLossReads) {
  Graph graph;
  const Tensor a = layer(input(graph), "a");
  const Tensor y = layer(tanh(a, "a_tanh"), "b");
  const Tensor z = layer(tanh(layer(y, "c"), "c_tanh"), "d");
  const Program program = lower_training(graph, loss_of(z), true, {y});
  EXPECT_EQ(find(program, "x/half"), nullptr);
  EXPECT_EQ(find(program, "a/half"), nullptr);
  EXPECT_EQ(find(program, "b_out/half"), nullptr) << "a fetch is handed out as it was made";
  EXPECT_EQ(find(program, "d_out/half"), nullptr) << "what the loss reads";
  EXPECT_NE(find(program, "a_tanh/half"), nullptr);
}

TEST(HalfStorage, LeavesWhatIsSmall) {
  Graph graph;
  const Tensor a = tanh(layer(input(graph), "a", kWidth - 1), "a_tanh");
  const Program program = lower_training(graph, loss_of(layer(tanh(layer(a, "b"), "b_tanh"), "c")), true);
  EXPECT_EQ(find(program, "a_tanh/half"), nullptr);
  EXPECT_NE(find(program, "b_tanh/half"), nullptr);
}

TEST(HalfStorage, ElementwiseReadersTakeTheHalfAndViewsFollow) {
  Graph graph;
  const Tensor a = layer(input(graph), "a");
  const Tensor b = gelu(a, false, "b");
  const Tensor seen = reshape(layer(b, "c"), {Dim::batch(4), kWidth / 4});
  const Tensor w = graph.variable("w", DType::F32, {kWidth / 4, kWidth / 4}, Init::zeros());
  const Tensor y = matmul(gelu(seen, false, "g"), w);
  const Program program = lower_training(graph, loss_of(layer(reshape(y, {Dim::batch(), kWidth}), "e")), true);
  EXPECT_NO_THROW(require_valid(program.problem));
  // gelu and its gradient make floats of what they load: no wide copy exists.
  EXPECT_NE(find(program, "a_out/half"), nullptr);
  EXPECT_EQ(find(program, "a_out/rounded"), nullptr);
  EXPECT_EQ(find(program, "a_out/again"), nullptr);
  EXPECT_NE(find(program, "c_out/half"), nullptr) << "kept once, whatever shape its readers see";
  EXPECT_EQ(find(program, "c_out/again"), nullptr);
}

}  // namespace
}  // namespace plimsoll::lower
