// Weights that are not trained have no gradient and no state, and the backward pass ends where nothing before is
// trained.
#include "model/freeze.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/body.h"
#include "model/training.h"
#include "support/error_of.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

struct Built {
  Graph graph;
  model::TrainingGraph training;
  Built(const std::string& name, const Freeze& freeze, const ModelOptions& options = {}, int64_t accumulate = 1)
      : training(model::build_training(graph, find_model(name, options), Optimiser::adam(), {}, accumulate, freeze)) {}

  std::vector<std::string> state() const {
    std::vector<std::string> names;
    for (const graph::Variable& variable : graph.body().variables())
      if (variable.role() == VariableRole::Optimiser) names.push_back(variable.stored->name);
    return names;
  }
  int64_t backward_nodes() const {
    return std::ranges::count_if(graph.body().nodes(), [](const graph::Node& node) { return node.is_backward; });
  }
  // Of variables that nodes of the step change.
  bool updates(const std::string& name) const {
    const graph::Body& body = graph.body();
    return std::ranges::any_of(training.updates.nodes, [&](NodeId id) {
      const auto inputs = body.inputs(body.node(id));
      for (size_t i = 0; i < inputs.size(); ++i)
        if ((body.node(id).op->traits.updates >> i & 1) != 0 && body.name(body.value(inputs[i])) == name) return true;
      return false;
    });
  }
};

ModelOptions small_gpt2() { return {.classes = 50, .sequence = 8, .layers = 4, .width = 64}; }

TEST(Freezing, LeavesOutGradientAndState) {
  const Built all("lenet", {}), some("lenet", {.patterns = {"lenet/conv*"}});
  EXPECT_TRUE(all.updates("lenet/conv1/kernel"));
  EXPECT_FALSE(some.updates("lenet/conv1/kernel"));
  EXPECT_TRUE(some.updates("lenet/fc1/kernel"));
  for (const std::string& name : some.state()) EXPECT_THAT(name, ::testing::Not(HasSubstr("conv")));
  EXPECT_LT(some.backward_nodes(), all.backward_nodes());
}

TEST(Freezing, StopsTheBackwardPassWhereNothingBeforeIsTrained) {
  const Built last("gpt2-small", {.all_but = {"gpt2-small/norm/*"}}, small_gpt2());
  const graph::Body& body = last.graph.body();
  for (const graph::Node& node : body.nodes()) {
    if (!node.is_backward) continue;
    EXPECT_THAT(std::string(body.name(node)), ::testing::Not(HasSubstr("block")));
  }
  EXPECT_EQ(std::ranges::count_if(last.state(), [](const std::string& name) { return name.find("norm") != name.npos; }),
            4);
}

TEST(Freezing, ATableThatIsTheLastLayerTooGetsNoGradient) {
  const Built blocks("gpt2-small", {.patterns = {"*/table"}}, small_gpt2());
  const graph::Body& body = blocks.graph.body();
  const Shape table{50, 64};
  for (const graph::Node& node : body.nodes())
    for (int i = 0; node.is_backward && i < node.outputs; ++i)
      EXPECT_FALSE(body.value(node.first_output + i).type.shape == table) << body.name(node);
}

TEST(Freezing, KeepsStatisticsThatMatch) {
  const ModelOptions options{.image_size = 32, .classes = 4};
  const Built all("resnet18", {}, options);
  std::string statistic;
  for (const graph::Variable& variable : all.graph.body().variables())
    if (variable.role() == VariableRole::Statistic && statistic.empty()) statistic = variable.stored->name;
  ASSERT_TRUE(all.updates(statistic));
  const Built some("resnet18", {.patterns = {statistic.substr(0, statistic.rfind('/')) + "/*"}}, options);
  EXPECT_FALSE(some.updates(statistic));
}

TEST(Freezing, WorksWhereGradientsAreAddedUp) {
  const Built some("mlp", {.patterns = {"mlp/*1/*"}}, {}, 2);
  EXPECT_FALSE(some.training.apply.nodes.empty());
}

TEST(Freezing, PatternsAndExceptions) {
  const Freeze none, some{.patterns = {"a/*", "b/x"}}, most{.all_but = {"*/head*"}},
      both{.patterns = {"a/*"}, .all_but = {"*/bias"}};
  EXPECT_FALSE(none.freezes("a/x"));
  EXPECT_TRUE(some.freezes("a/x/kernel"));
  EXPECT_TRUE(some.freezes("b/x"));
  EXPECT_FALSE(some.freezes("b/xy"));
  EXPECT_TRUE(most.freezes("a/x"));
  EXPECT_FALSE(most.freezes("a/head/kernel"));
  EXPECT_TRUE(both.freezes("a/kernel"));
  EXPECT_FALSE(both.freezes("a/bias"));
  EXPECT_FALSE(both.freezes("b/kernel"));
}

TEST(Freezing, RefusesWhatMakesNoSense) {
  const auto refused = [](const Freeze& freeze) { return error_of([&] { Built("lenet", freeze); }); };
  EXPECT_EQ(refused({.patterns = {"*"}}), "there is nothing to train: all weights are frozen; freeze fewer of them");
  EXPECT_THAT(
      refused({.patterns = {"conv1/*"}}),
      HasSubstr("no variable matches 'conv1/*', which is to say what is frozen; the variables are lenet/conv1/kernel"));
  EXPECT_THAT(refused({.patterns = {"*"}, .all_but = {"*"}}), HasSubstr("nothing is frozen"));
  EXPECT_THAT(refused({.all_but = {"*"}}), HasSubstr("nothing is frozen"));
  EXPECT_THAT(refused({.all_but = {"nothing"}}), HasSubstr("no variable matches 'nothing'"));
}

}  // namespace
}  // namespace plimsoll
