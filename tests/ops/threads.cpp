// Kernels give the same bits for any number of threads: operators of the samples, and convolutions of many shapes,
// since oneDNN divides the work of each in one of several ways.
#include <omp.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

constexpr int kThreads[] = {2, 3, 5, 8};

// The contents of every value that the graph computes, and of what it was fed, which updates change.
std::vector<Contents> run_with(int threads, const Graph& graph, const ops::SampleBuilder& builder, int64_t batch) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  Evaluator evaluator(graph, batch);
  for (const ops::SampleBuilder::Input& input : builder.inputs())
    evaluator.set(input.tensor.id(),
                  sample_contents(input.tensor.type(), std::string(input.tensor.name()), input.low, input.high, batch));
  evaluator.run();
  std::vector<Contents> contents;
  for (const graph::Node& node : graph.body().nodes())
    for (int i = 0; i < node.outputs; ++i) contents.push_back(evaluator.contents(node.first_output + i));
  for (const ops::SampleBuilder::Input& input : builder.inputs())
    contents.push_back(evaluator.contents(input.tensor.id()));
  omp_set_num_threads(before);
  return contents;
}

void expect_same_bits(const Graph& graph, const ops::SampleBuilder& builder, int64_t batch) {
  const std::vector<Contents> one = run_with(1, graph, builder, batch);
  for (const int threads : kThreads) {
    const std::vector<Contents> many = run_with(threads, graph, builder, batch);
    size_t at = 0;
    for (const graph::Node& node : graph.body().nodes())
      for (int i = 0; i < node.outputs; ++i, ++at)
        EXPECT_TRUE(many[at] == one[at]) << graph.body().name(node) << " (" << node.op->name << "), output " << i
                                         << ", batch " << batch << ", " << threads << " threads";
    for (const ops::SampleBuilder::Input& input : builder.inputs()) {
      EXPECT_TRUE(many[at] == one[at]) << input.tensor.name() << ", " << threads << " threads";
      ++at;
    }
  }
}

TEST(Threads, DoNotChangeSamples) {
  for (const Op* op : ops::all_ops()) {
    if (op->samples == nullptr) continue;
    for (const ops::Sample& sample : op->samples()) {
      SCOPED_TRACE(fmt::format("{}, {}", op->name, sample.name));
      Graph graph;
      ops::SampleBuilder builder(graph);
      const std::vector<Tensor> outputs = sample.build(builder);
      std::vector<Tensor> wrt;
      for (const ops::SampleBuilder::Input& input : builder.inputs())
        if (is_float(input.tensor.dtype()) &&
            graph.body().value(input.tensor.id()).kind == graph::ValueKind::Placeholder)
          wrt.push_back(input.tensor);
      if (sample.has_gradient)
        for (const Tensor& y : outputs)
          if (is_float(y.dtype())) gradients(y, wrt, builder.input(y.shape()));
      expect_same_bits(graph, builder, 5);
    }
  }
}

struct Layer {
  int64_t batch, inputs, outputs, size;
  std::array<int64_t, 2> kernel;
  Window window;
  bool bias = false;
};

void build(ops::SampleBuilder& s, const Layer& layer, bool is_transposed) {
  const int64_t groups = layer.window.groups;
  const Tensor x = s.input({Dim::batch(), layer.inputs, layer.size, layer.size + 1});
  const Shape shape = is_transposed ? Shape{layer.inputs, layer.outputs / groups, layer.kernel[0], layer.kernel[1]}
                                    : Shape{layer.outputs, layer.inputs / groups, layer.kernel[0], layer.kernel[1]};
  std::vector<Tensor> wrt{x, s.input(shape)};
  if (layer.bias) wrt.push_back(s.input({layer.outputs}));
  const Tensor bias = layer.bias ? wrt[2] : Tensor();
  const Tensor y =
      is_transposed ? conv2d_transpose(x, wrt[1], bias, layer.window) : conv2d(x, wrt[1], bias, layer.window);
  gradients(y, wrt, s.input(y.shape()));
}

TEST(Threads, DoNotChangeConvolutions) {
  const Window same = Window::padded(1), halved = Window::strided(2, 1), skips = Window::strided(2, 0);
  const auto in_groups = [](Window window, int64_t groups) {
    window.groups = groups;
    return window;
  };
  for (const Layer& layer : {
           // Large images and small filters: sums are cut into groups of samples.
           Layer{16, 3, 64, 32, {7, 7}, Window::strided(2, 3)},
           {3, 3, 32, 40, {3, 3}, halved, true},
           {9, 64, 64, 12, {3, 3}, same, true},
           {8, 16, 96, 16, {1, 1}, {}},
           {11, 32, 16, 16, {1, 1}, {}, true},
           {5, 6, 16, 14, {5, 5}, {}, true},
           {8, 64, 128, 16, {1, 1}, skips},
           {7, 64, 128, 16, {1, 1}, skips, true},
           {6, 1, 9, 20, {3, 3}, same, true},
           // One or few samples: output channels are cut as well.
           {1, 3, 64, 48, {3, 3}, same, true},
           {1, 64, 64, 40, {3, 3}, same, true},
           {2, 64, 2, 32, {1, 1}, {}, true},
           {1, 64, 48, 32, {1, 1}, skips},
           {3, 16, 80, 24, {2, 2}, skips},
           // Small images and large filters: oneDNN divides the channels.
           {3, 256, 256, 4, {3, 3}, same},
           {4, 256, 512, 6, {1, 1}, skips},
           {2, 512, 256, 3, {1, 1}, {}, true},
           // Depthwise, groups and channels that fill no block.
           {8, 32, 32, 16, {3, 3}, in_groups(same, 32)},
           {1, 96, 96, 16, {3, 3}, in_groups(halved, 96), true},
           {3, 16, 32, 10, {3, 3}, in_groups(same, 2), true},
           {5, 6, 6, 20, {3, 3}, in_groups(same, 2)},
           {4, 10, 20, 17, {5, 5}, Window::padded(2), true},
           {6, 33, 7, 30, {3, 1}, {}, true},
           {4, 12, 12, 19, {3, 3}, {{1, 1}, {2, 2, 2, 2}, {2, 2}, 1}},
       }) {
    SCOPED_TRACE(fmt::format("{} -> {}, {}x{}, {} groups, images of {}", layer.inputs, layer.outputs, layer.kernel[0],
                             layer.kernel[1], layer.window.groups, layer.size));
    Graph graph;
    ops::SampleBuilder builder(graph);
    build(builder, layer, false);
    expect_same_bits(graph, builder, layer.batch);
  }
}

TEST(Threads, DoNotChangeTransposedConvolutions) {
  for (const Layer& layer : {Layer{2, 64, 32, 16, {2, 2}, Window::strided(2), true},
                             {5, 16, 24, 9, {3, 3}, Window::strided(2, 1), true},
                             {3, 5, 7, 11, {3, 3}, {}, true}}) {
    Graph graph;
    ops::SampleBuilder builder(graph);
    build(builder, layer, true);
    expect_same_bits(graph, builder, layer.batch);
  }
}

TEST(Threads, DoNotChangeProductsPoolsAndSums) {
  const Dim batch = Dim::batch();
  for (const int64_t samples : {1, 3, 8}) {
    Graph graph;
    ops::SampleBuilder s(graph);
    const auto with_gradients = [&](Tensor y, std::vector<Tensor> wrt) { gradients(y, wrt, s.input(y.shape())); };
    const Tensor many_a = s.input({batch, 3, 70, 50}), many_b = s.input({batch, 3, 50, 90});
    with_gradients(matmul(many_a, many_b), {many_a, many_b});
    const Tensor deep_a = s.input({batch, 5000, 20}), deep_b = s.input({batch, 5000, 20});
    with_gradients(matmul(deep_a, deep_b, true), {deep_a, deep_b});
    const Tensor shared = s.input({130, 200}), rows = s.input({batch, 40, 130});
    with_gradients(matmul(rows, shared), {rows, shared});
    const Tensor one_a = s.input({600, 300}), one_b = s.input({300, 170});
    with_gradients(matmul(one_a, one_b), {one_a, one_b});
    const Tensor image = s.input({batch, 16, 33, 30});
    with_gradients(average_pool(image, {3, 3}, Window::strided(2, 1)), {image});
    with_gradients(max_pool(image, {3, 3}, Window::strided(2, 1)), {image});
    with_gradients(global_average_pool(image), {image});
    with_gradients(reduce_sum(image, {0, 2, 3}), {image});
    const Tensor q = s.input({batch, 4, 70, 32}), k = s.input({batch, 4, 65, 32}), v = s.input({batch, 4, 65, 32});
    with_gradients(attention(q, k, v), {q, k, v});
    // Fewer heads of keys than threads, so that a backward pass is cut in other ways.
    const Tensor key = s.input({batch, 2, 150, 8}), value = s.input({batch, 2, 150, 12});
    const Tensor query = s.input({batch, 4, 140, 8}), bias = s.input({4, 140, 150});
    with_gradients(attention(query, key, value, {}, true, 0, false, bias, 70, 2), {query, key, value, bias});
    const Tensor gain = s.input({16}), shift = s.input({16});
    with_gradients(group_norm(image, gain, shift, 4), {image, gain, shift});
    expect_same_bits(graph, s, samples);
  }
}

// Threads share samples, or the units of a step where there are few samples.
TEST(Threads, DoNotChangeRecurrentLayers) {
  for (const int64_t samples : {1, 3, 70}) {
    Graph graph;
    ops::SampleBuilder s(graph);
    const auto with_gradients = [&](const std::vector<Tensor>& y, std::vector<Tensor> wrt) {
      gradients(y[0], wrt, s.input(y[0].shape()));
    };
    const Tensor x = s.input({Dim::batch(), 9, 20}), mask = s.integers({Dim::batch(), 9}, 0, 2, DType::Bool);
    const Tensor simple = s.input({20, 300}), simple_back = s.input({300, 300}, -0.1, 0.1);
    with_gradients(simple_rnn(x, simple, simple_back), {x, simple, simple_back});
    const Tensor four = s.input({20, 4 * 150}), four_back = s.input({150, 4 * 150}, -0.1, 0.1);
    with_gradients(lstm(x, four, four_back, {}, {}, {}, mask), {x, four, four_back});
    const Tensor three = s.input({20, 3 * 170}), three_back = s.input({170, 3 * 170}, -0.1, 0.1);
    const Tensor bias = s.input({3 * 170});
    with_gradients(gru(x, three, three_back, {}, bias, {}, {}, true), {x, three, three_back, bias});
    expect_same_bits(graph, s, samples);
  }
}

}  // namespace
}  // namespace plimsoll::testing
