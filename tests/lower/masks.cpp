// Bits instead of an activation's output: the same numbers to the last bit, and the output dies early.
#include "lower/masks.h"

#include <algorithm>

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "lower/run_once.h"
#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

using namespace kernels;
using namespace ops;
using namespace plan;

using testing::Ran;
using testing::run_once;

using Activation = Tensor (*)(Tensor, Name);

// Enough work between y and its gradient that keeping y would cost something.
Tensor go_on(Tensor x) {
  x = flatten(x);
  for (int i = 0; i < 4; ++i) x = softmax(x);
  return x;
}

Ran run(const Graph& graph, const std::vector<Tensor>& fetches, bool masks, int64_t micro_batch = 0) {
  LowerOptions options;
  options.batch = 4;
  options.masks = masks;
  options.micro_batch = micro_batch;
  options.waits.assign(graph.body().nodes().size(), false);
  return run_once(graph, fetches, options);
}

// With masks: so many, the same results, and `y` read by no task after the forward pass.
void expect_masks(const Graph& graph, const std::vector<Tensor>& fetches, int64_t masks) {
  const Ran plain = run(graph, fetches, false);
  const Ran masked = run(graph, fetches, true);
  EXPECT_EQ(plain.count("bit_mask"), 0);
  EXPECT_EQ(masked.count("bit_mask"), masks);
  EXPECT_EQ(masked.count("masked"), masks);
  EXPECT_EQ(masked.fetches, plain.fetches);
  EXPECT_FALSE(std::all_of(plain.fetches[0].begin(), plain.fetches[0].end(), [](float x) { return x == 0; }));
  ASSERT_NO_THROW(require_valid(masked.program.problem));
}

std::vector<Tensor> gradients_of(Tensor y, const std::vector<Tensor>& wrt) {
  const Tensor seed = y.graph().placeholder("seed", DType::F32, y.shape());
  std::vector<Tensor> values;
  for (const Gradient& gradient : gradients(y, wrt, seed)) values.push_back(gradient.value);
  return values;
}

// In planes, in blocks that are filled, and in blocks that are not.
TEST(Masks, BehindAConvolution) {
  for (Activation activation : {relu, relu6}) {
    for (const int64_t channels : {3, 16, 20}) {
      Graph graph;
      const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8, 7, 5});
      const Tensor w = graph.variable("w", DType::F32, {channels, 8, 3, 3}, Init::zeros());
      const Tensor y = activation(conv2d(x, w, {}, Window::padded(1)), {});
      expect_masks(graph, gradients_of(go_on(global_average_pool(y)), {w, x}), 1);
    }
  }
}

TEST(Masks, OfRows) {
  for (const int64_t units : {40, 13}) {
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6});
    const Tensor w = graph.variable("w", DType::F32, {6, units}, Init::zeros());
    const Tensor y = relu(matmul(x, w));
    expect_masks(graph, gradients_of(go_on(dropout(y, 0.5)), {w}), 1);
  }
}

// Two gradients meet at y: they are added where the mask is read.
TEST(Masks, OfASum) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8, 6, 6});
  const Tensor w = graph.variable("w", DType::F32, {16, 8, 3, 3}, Init::zeros());
  const Tensor y = relu(conv2d(x, w, {}, Window::padded(1)));
  const Tensor both = add(global_average_pool(y), global_average_pool(max_pool(y, {2, 2}, Window::strided(2))));
  const std::vector<Tensor> wanted = gradients_of(go_on(both), {w});
  expect_masks(graph, wanted, 1);
  const Ran masked = run(graph, wanted, true);
  const auto reader = std::find_if(masked.program.tasks.begin(), masked.program.tasks.end(),
                                   [](const auto& task) { return task.op != nullptr && task.op->name == "masked"; });
  EXPECT_EQ(reader->own.in.size(), 3U);
}

// Behind pooling the mask is that of the pooled output.
TEST(Masks, OfWhatWasPooled) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8, 6, 6});
  const Tensor w = graph.variable("w", DType::F32, {16, 8, 3, 3}, Init::zeros());
  const Tensor y = relu(conv2d(x, w, {}, Window::padded(1)));
  const Tensor p = max_pool(y, {2, 2}, Window::strided(2));
  const std::vector<Tensor> wanted = gradients_of(go_on(global_average_pool(p)), {w});
  expect_masks(graph, wanted, 1);
  for (const Buffer& buffer : run(graph, wanted, true).program.problem.buffers)
    EXPECT_TRUE(buffer.name != std::string(p.name()) + "/mask" || buffer.per_sample_bytes == 16 * 3 * 3 / 8);
}

TEST(Masks, NoneForWhatIsReadAnyway) {
  {
    Graph graph;  // the gradient of the next weight reads y, through a view
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6});
    const Tensor v = graph.variable("v", DType::F32, {6, 16}, Init::zeros());
    const Tensor w = graph.variable("w", DType::F32, {16, 8}, Init::zeros());
    const Tensor y = relu(matmul(x, v));
    const Tensor z = matmul(reshape(reshape(y, {Dim::batch(), 4, 4}), {Dim::batch(), 16}), w);
    expect_masks(graph, gradients_of(go_on(z), {v, w}), 0);
  }
  {
    Graph graph;  // y itself is asked for
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 16});
    const Tensor y = relu(x);
    std::vector<Tensor> wanted = gradients_of(go_on(y), {x});
    wanted.push_back(y);
    expect_masks(graph, wanted, 0);
  }
}

TEST(Masks, GrowWithTheBatchExactly) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 13});
  const Tensor y = relu(x);
  const std::vector<Tensor> wanted = gradients_of(go_on(y), {x});
  const Ran whole = run(graph, wanted, true);
  const Ran parts = run(graph, wanted, true, 3);  // of 3 samples and of 1
  ASSERT_FALSE(parts.program.tasks.empty());
  EXPECT_EQ(parts.count("bit_mask"), 1);
  EXPECT_EQ(parts.fetches, whole.fetches);
  for (const Buffer& buffer : parts.program.problem.buffers)
    EXPECT_TRUE(!buffer.name.ends_with("/mask") || buffer.per_sample_bytes == 2) << buffer.name;
}

}  // namespace
}  // namespace plimsoll::lower
