#include <plimsoll/layers.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/body.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> variable_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Variable& variable : graph.body().variables())
    names.emplace_back(graph.body().name(graph.body().value(variable.value)));
  return names;
}

template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Tensor image(Graph& graph, int64_t channels = 3, int64_t size = 8) {
  return graph.placeholder("image", DType::F32, {Dim::batch(), channels, size, size});
}

TEST(Layers, MakeTheirVariablesInAScopeOfTheirName) {
  Graph graph;
  Tensor x = layers::conv2d(image(graph), 4, 3, {.padding = "same"}, "conv1");
  x = layers::batch_norm(x, true, {}, "bn");
  x = layers::dense(layers::flatten(x), 10, {.use_bias = false}, "head");
  EXPECT_THAT(variable_names(graph), ElementsAre("conv1/kernel", "conv1/bias", "bn/gamma", "bn/beta", "bn/mean",
                                                 "bn/variance", "head/kernel"));
  EXPECT_EQ(to_string(graph.find("conv1/kernel").type()), "f32[4,3,3,3]");
  EXPECT_EQ(to_string(graph.find("head/kernel").type()), "f32[256,10]");
  EXPECT_EQ(graph.body().variable_of(graph.find("bn/mean").id()).role(), VariableRole::Statistic);
  EXPECT_EQ(graph.body().variable_of(graph.find("bn/gamma").id()).role(), VariableRole::Weight);
  EXPECT_EQ(to_string(x.type()), "f32[B,10]");
}

TEST(Layers, NumberThemselvesWithoutAName) {
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  for (int i = 0; i < 3; ++i) x = layers::dense(x, 4, {.use_bias = false});
  EXPECT_THAT(variable_names(graph), ElementsAre("dense/kernel", "dense_1/kernel", "dense_2/kernel"));
}

TEST(Layers, RefuseASecondVariableOfTheSameName) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  layers::dense(x, 4, {}, "fc");
  EXPECT_THAT(message_of([&] { layers::dense(x, 4, {}, "fc"); }), HasSubstr("'fc/kernel' exists already"));
}

TEST(Layers, StartAsInKeras) {
  Graph graph;
  const Tensor x = image(graph);
  layers::conv2d(x, 5, 3, {}, "conv");
  EXPECT_EQ(graph.body().variable_of(graph.find("conv/kernel").id()).init(), Init::glorot_uniform(27, 45));
  EXPECT_EQ(graph.body().variable_of(graph.find("conv/bias").id()).init(), Init::zeros());
  layers::depthwise_conv2d(x, 3, {}, 2, "depthwise");
  EXPECT_EQ(graph.body().variable_of(graph.find("depthwise/kernel").id()).init(), Init::glorot_uniform(27, 18));
  EXPECT_EQ(to_string(graph.find("depthwise/kernel").type()), "f32[6,1,3,3]");
  const Tensor words = graph.placeholder("words", DType::I32, {Dim::batch(), 7});
  EXPECT_EQ(to_string(layers::embedding(words, 100, 16).type()), "f32[B,7,16]");
  EXPECT_EQ(graph.body().variable_of(graph.find("embedding/table").id()).init(), Init::uniform(-0.05, 0.05));
}

TEST(Layers, PadAsAsked) {
  Graph graph;
  const Tensor x = image(graph, 3, 9);
  EXPECT_EQ(to_string(layers::conv2d(x, 4, 3).shape()), "[B,4,7,7]");
  EXPECT_EQ(to_string(layers::conv2d(x, 4, 3, {.strides = 2, .padding = "same"}).shape()), "[B,4,5,5]");
  EXPECT_EQ(to_string(layers::conv2d(x, 4, {3, 1}, {.padding = {1, 0, 2, 0}}).shape()), "[B,4,10,9]");
  EXPECT_EQ(to_string(layers::conv2d(x, 4, 3, {.padding = 0}).shape()), "[B,4,7,7]");
  EXPECT_EQ(to_string(layers::max_pool(x).shape()), "[B,3,4,4]");
  EXPECT_EQ(to_string(layers::average_pool(x, 3, {.strides = 2, .padding = "same"}).shape()), "[B,3,5,5]");
  EXPECT_THAT(message_of([] { layers::Padding(std::string_view("full")); }), HasSubstr("padding can't be 'full'"));
}

TEST(Layers, TransposedConvolutionsGrowAsInKeras) {
  Graph graph;
  const Tensor x = image(graph, 3, 5);
  const auto shape = [&](int64_t size, layers::Conv options) {
    return to_string(layers::conv2d_transpose(x, 2, size, options).shape());
  };
  EXPECT_EQ(shape(2, {.strides = 2}), "[B,2,10,10]");
  EXPECT_EQ(shape(3, {.strides = 2, .padding = "same"}), "[B,2,10,10]");
  EXPECT_EQ(shape(1, {.strides = 2, .padding = "same"}), "[B,2,10,10]");
  EXPECT_EQ(shape(3, {.strides = 2}), "[B,2,11,11]");
  EXPECT_EQ(shape(1, {.strides = 2}), "[B,2,10,10]");
}

TEST(Layers, AttentionKeepsTheShape) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6, 32});
  EXPECT_EQ(to_string(layers::multi_head_attention(x, 4, {.causal = true}, "mha").type()), "f32[B,6,32]");
  EXPECT_EQ(to_string(layers::multi_head_attention(x, 4, {.key_dim = 5}).type()), "f32[B,6,32]");
  EXPECT_EQ(to_string(graph.find("mha/query/kernel").type()), "f32[32,32]");
  EXPECT_THAT(message_of([&] { layers::multi_head_attention(x, 5); }), HasSubstr("can't be split into 5 heads"));
}

TEST(Layers, AttentionTakesAContextAndFewerHeadsOfKeys) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 6, 32});
  const Tensor context = graph.placeholder("context", DType::F32, {Dim::batch(), 9, 20});
  const Tensor y = layers::multi_head_attention(
      x, 4, {.context = context, .key_heads = 2, .value_dim = 5, .units = 7, .use_bias = false}, "cross");
  EXPECT_EQ(to_string(y.type()), "f32[B,6,7]");
  EXPECT_THAT(variable_names(graph),
              ElementsAre("cross/query/kernel", "cross/key/kernel", "cross/value/kernel", "cross/output/kernel"));
  EXPECT_EQ(to_string(graph.find("cross/key/kernel").type()), "f32[20,16]");
  EXPECT_EQ(to_string(graph.find("cross/value/kernel").type()), "f32[20,10]");
  EXPECT_EQ(to_string(graph.find("cross/output/kernel").type()), "f32[20,7]");
  EXPECT_EQ(to_string(layers::multi_head_attention(8, {.causal = true, .window = 3, .rope = 1e4})(x, true).type()),
            "f32[B,6,32]");
  EXPECT_THAT(message_of([&] { layers::multi_head_attention(x, 4, {.key_heads = 3}); }),
              HasSubstr("4 heads of queries can't share 3 heads of keys"));
  EXPECT_THAT(message_of([&] { layers::multi_head_attention(x, 4, {.context = layers::flatten(x)}); }),
              HasSubstr("must have 3 dimensions"));
}

TEST(Layers, DropOnlyInTraining) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  EXPECT_EQ(layers::dropout(x, 0.5, false), x);
  EXPECT_FALSE(layers::dropout(x, 0.5, true) == x);
  EXPECT_THAT(message_of([&] { layers::dropout(x, 1.5, true); }), HasSubstr("between 0 and 1"));
}

TEST(Layers, KnowActivationsByName) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  for (const char* kind : {"relu", "relu6", "leaky_relu", "sigmoid", "tanh", "gelu", "gelu_tanh", "silu", "softmax"})
    EXPECT_EQ(layers::activation(x, kind).shape(), x.shape()) << kind;
  EXPECT_EQ(layers::activation(x, ""), x);
  EXPECT_THAT(message_of([&] { layers::activation(x, "rellu"); }), HasSubstr("'rellu' is unknown; known are relu"));
}

TEST(Layers, SayWhatTheyNeed) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  EXPECT_THAT(message_of([&] { layers::conv2d(x, 4, 3, {}, "stem"); }),
              HasSubstr("conv2d 'stem': input must be an image"));
  EXPECT_THAT(message_of([&] { layers::dense(x, 0); }), HasSubstr("units must be positive but is 0"));
}

TEST(Layers, GlobalAveragePoolingGivesChannelsAlone) {
  Graph graph;
  EXPECT_EQ(to_string(layers::global_average_pool(image(graph, 5, 4)).type()), "f32[B,5]");
}

}  // namespace
}  // namespace plimsoll
