#include <plimsoll/model.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/body.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Tensor image(Graph& graph, std::string_view name = "image") {
  return graph.placeholder<float>(name, {Dim::batch(), 3, 8, 8});
}

Model small_net(std::string name = "net") {
  return sequential(
      {layers::conv2d(8, 3, {.padding = "same", .activation = "relu"}), layers::batch_norm(), layers::max_pool(),
       layers::conv2d(16, 3), layers::flatten(), layers::dropout(0.5), layers::dense(10)},
      std::move(name));
}

TEST(Model, CalledAgainUsesTheSameVariables) {
  Graph graph;
  const Tensor x = image(graph);
  const Model net = small_net();
  const Tensor trained = net(x, true);
  const size_t variables = graph.body().variables().size();
  EXPECT_EQ(variables, 10U);
  EXPECT_TRUE(graph.has_value("net/conv2d_1/kernel"));
  const Tensor inferred = net(x, false);
  EXPECT_EQ(graph.body().variables().size(), variables);
  EXPECT_EQ(inferred.type(), trained.type());
  EXPECT_FALSE(inferred == trained);
  // Another model of the same name does not share these variables.
  small_net()(x);
  EXPECT_EQ(graph.body().variables().size(), 2 * variables);
  EXPECT_TRUE(graph.has_value("net_1/conv2d_1/kernel"));
}

TEST(Model, OneThatIsEmptySaysSo) {
  EXPECT_THAT(message_of([] { Model().name(); }), HasSubstr("the model is empty"));
  EXPECT_THAT(message_of([] { Model().inputs(); }), HasSubstr("the model is empty"));
  EXPECT_THAT(message_of([] { Model().outputs(); }), HasSubstr("the model is empty"));
  Model net = small_net();
  const Model taken = std::move(net);
  EXPECT_THAT(message_of([&] { net.name(); }), HasSubstr("the model is empty"));  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(taken.name(), "net");
}

TEST(Model, OneSetOfWeightsWhereverItIsCalled) {
  const Model part = small_net("part");
  const Model whole("whole", [part](Tensor in, bool training) { return layers::dense(part(in, training), 2); });
  Graph graph;
  const Tensor x = image(graph);
  whole(x, true);
  part(x);  // the same variables, outside of the other model
  EXPECT_TRUE(graph.has_value("whole/part/conv2d/kernel"));
  EXPECT_EQ(graph.body().variables().size(), 12U);
  // Models that a function makes anew in each call are numbered in their order.
  const Model twins("twins", [](Tensor in, bool training) {
    return layers::dense(layers::flatten(in), 10) + small_net()(in, training) + small_net()(in, training);
  });
  twins(x, true);
  const size_t variables = graph.body().variables().size();
  EXPECT_TRUE(graph.has_value("twins/net_1/conv2d/kernel"));
  twins(x, false);
  EXPECT_EQ(graph.body().variables().size(), variables);
}

TEST(Model, SharesVariablesBetweenGraphsOfOneStore) {
  const Model net = small_net();
  Graph training;
  net(image(training), true);
  Graph inference(training.store());
  EXPECT_EQ(to_string(net(image(inference)).type()), "f32[B,10]");
  EXPECT_EQ(training.store()->variables().size(), 10U);
  // A graph with a store of its own gets variables of its own.
  Graph alone;
  net(image(alone));
  EXPECT_EQ(alone.store()->variables().size(), 10U);
}

TEST(Model, IsALayerAmongOthers) {
  Graph graph;
  const Model both("both", [](Tensor in, bool training) {
    return layers::add(small_net()(in, training), layers::dense(layers::flatten(in), 10, {}, "skip"));
  });
  const Model outer = sequential({both, layers::dense(2)}, "outer");
  const Tensor x = image(graph);
  EXPECT_EQ(to_string(outer(x, true).type()), "f32[B,2]");
  EXPECT_EQ(to_string(outer(x, false).type()), "f32[B,2]");
  EXPECT_TRUE(graph.has_value("outer/both/net/conv2d/kernel"));
  EXPECT_TRUE(graph.has_value("outer/both/skip/kernel"));
}

Model pair() {
  return Model("pair", {"left", "right"}, {"distance", "sum"}, [](const NamedTensors& in, bool) {
    const Tensor a = layers::dense(in["left"], 4, {}, "left"), b = layers::dense(in["right"], 4, {}, "right");
    return NamedTensors{{"distance", reduce_sum(abs(a - b), {1})}, {"sum", a + b}};
  });
}

TEST(Model, HasAnyNumberOfNamedInputsAndOutputs) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 3}),
               y = graph.placeholder<float>("y", {Dim::batch(), 5});
  const Model model = pair();
  EXPECT_THAT(model.inputs(), ElementsAre("left", "right"));
  EXPECT_THAT(model.outputs(), ElementsAre("distance", "sum"));
  const NamedTensors out = model({{"right", y}, {"left", x}});
  EXPECT_EQ(to_string(out["distance"].type()), "f32[B]");
  EXPECT_EQ(to_string(out["sum"].type()), "f32[B,4]");
  EXPECT_EQ(to_string(graph.find("pair/right/kernel").type()), "f32[5,4]");
}

TEST(Model, SaysWhichInputsAndOutputsItHas) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 3});
  EXPECT_THAT(message_of([&] { pair()(x); }), HasSubstr("several inputs; name them: left, right"));
  EXPECT_THAT(message_of([&] {
                pair()({{"left", x}, {"rigth", x}});
              }),
              HasSubstr("model 'pair': its inputs are left, right but it got left, rigth"));
  const NamedTensors out = pair()({{"left", x}, {"right", x}});
  EXPECT_THAT(message_of([&] { out.only(); }), HasSubstr("distance, sum"));
  EXPECT_THAT(message_of([&] { out["dist"]; }), HasSubstr("no tensor 'dist'; there are: distance, sum"));
  EXPECT_THAT(message_of([&] { NamedTensors{{"a", x}, {"a", x}}; }), HasSubstr("two tensors of the name 'a'"));
  const Model wrong("wrong", {"x"}, {"y"}, [](const NamedTensors& in, bool) { return in; });
  EXPECT_THAT(message_of([&] { wrong(x); }), HasSubstr("model 'wrong': its outputs are y but it got x"));
  EXPECT_THAT(message_of([&] { Model()(x); }), HasSubstr("the model is empty"));
  EXPECT_THAT(message_of([] { Model("none", {}, {"y"}, {}); }), HasSubstr("at least one input"));
  EXPECT_THAT(message_of([] { Model("none", {"x"}, {"y"}, {}); }),
              HasSubstr("model 'none' is made of an empty function"));
  EXPECT_THAT(message_of([] { Model("none", layers::Layer()); }),
              HasSubstr("model 'none' is made of an empty function"));
  EXPECT_THAT(message_of([] { sequential({layers::flatten(), layers::Layer()}); }), HasSubstr("layer 1 is empty"));
}

}  // namespace
}  // namespace plimsoll
