// What is kept in 16 bits and what is not, as buffers and tasks of the lowered step.
#include "lower/half_storage.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "kernels/half_product.h"
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

LowerOptions in_half(DType values, bool half_products) {
  LowerOptions options;
  options.batch = kBatch;
  options.values = values;
  options.half_products = half_products;
  return options;
}

Program lower_training(Graph& graph, Tensor loss, const LowerOptions& options, const std::vector<Tensor>& also = {}) {
  std::vector<Tensor> weights;
  for (const graph::Variable& variable : graph.body().variables()) weights.emplace_back(graph, variable.value);
  std::vector<ValueId> fetches{loss.id()};
  for (const Tensor& fetch : also) fetches.push_back(fetch.id());
  for (const Gradient& gradient : gradients(loss, weights)) fetches.push_back(gradient.value.id());
  VariableLayouts layouts;
  KernelStore kernels;
  return lower::lower(graph.body(), fetches, {}, options, layouts, kernels);
}

Program lower_training(Graph& graph, Tensor loss, bool half, const std::vector<Tensor>& also = {}) {
  return lower_training(graph, loss, in_half(half ? DType::BF16 : DType::F32, false), also);
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

// Which operands of a task are bf16.
std::vector<bool> narrow_reads(const Program& program, std::string_view op) {
  std::vector<bool> narrow;
  for (size_t t = 0; t < program.tasks.size(); ++t) {
    if (program.tasks[t].op == nullptr || program.tasks[t].op->name != op) continue;
    bool any = false;
    for (const BufferId id : program.problem.tasks[t].reads)
      any = any || program.buffer_types[static_cast<size_t>(id)] == DType::BF16;
    narrow.push_back(any);
  }
  return narrow;
}

struct DeepNet {
  DeepNet() {
    Tensor x = input(graph);
    for (const char* name : {"a", "b", "c", "d"}) x = tanh(layer(x, name), std::string(name) + "_tanh");
    loss = loss_of(layer(x, "e"));
  }
  Graph graph;
  Tensor loss;
};

TEST(HalfProducts, ReadTheSixteenBitsAsTheyAre) {
  DeepNet wide, net;
  const Program stored = lower_training(wide.graph, wide.loss, in_half(DType::BF16, false));
  EXPECT_EQ(stored.half_products, 0);
  EXPECT_GT(stored.products, 10);
  EXPECT_NE(find(stored, "a_tanh/rounded"), nullptr);
  const Program program = lower_training(net.graph, net.loss, in_half(DType::BF16, true));
  EXPECT_EQ(program.half_products, program.products);
  EXPECT_EQ(program.half_values, stored.half_values);
  EXPECT_NE(find(program, "a_tanh/half"), nullptr);
  EXPECT_EQ(find(program, "a_tanh/rounded"), nullptr) << "a product takes bf16, and so does the gradient of tanh";
  EXPECT_EQ(find(program, "a_tanh/again"), nullptr);
  const std::vector<bool> narrow = narrow_reads(program, "matmul");
  EXPECT_GE(std::count(narrow.begin(), narrow.end(), true), 4);
  int64_t marked = 0;
  for (const ProgramTask& task : program.tasks) marked += task.is_half ? 1 : 0;
  EXPECT_EQ(marked, program.half_products);
}

TEST(HalfProducts, AreForBf16AndForStepsWithABackwardPass) {
  DeepNet f16, net;
  EXPECT_EQ(lower_training(f16.graph, f16.loss, in_half(DType::F16, true)).half_products, 0);
  VariableLayouts layouts;
  KernelStore kernels;
  const std::vector<ValueId> fetches{net.loss.id()};
  EXPECT_EQ(lower::lower(net.graph.body(), fetches, {}, in_half(DType::BF16, true), layouts, kernels).half_products, 0);
}

TEST(HalfProducts, ConvolutionsWriteWhatIsKeptAndShareANarrowGradient) {
  if (!kernels::multiplies_bf16()) GTEST_SKIP() << "oneDNN has no such convolutions for this processor";
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 32, 16, 16});
  for (const char* name : {"a", "b", "c"}) {
    const Tensor w = graph.variable(name, DType::F32, {32, 32, 3, 3}, Init::zeros());
    x = gelu(conv2d(x, w, {}, Window::padded(1), std::string(name) + "_conv"), false, std::string(name) + "_gelu");
  }
  const Program program = lower_training(graph, reduce_mean(mul(x, x), {0, 1, 2, 3}), in_half(DType::BF16, true));
  EXPECT_NO_THROW(require_valid(program.problem));
  EXPECT_EQ(program.half_products, program.products);
  EXPECT_NE(find(program, "a_conv/half"), nullptr);
  EXPECT_EQ(find(program, "a_conv"), nullptr) << "written in 16 bits at once";
  EXPECT_NE(find(program, "x/half"), nullptr);
  int64_t casts = 0;
  for (const ProgramTask& task : program.tasks) casts += task.op != nullptr && task.op->name == "cast" ? 1 : 0;
  // Of x, of a_gelu and b_gelu, and of one gradient for each convolution; none back to f32.
  EXPECT_LE(casts, 6);
}

}  // namespace
}  // namespace plimsoll::lower
