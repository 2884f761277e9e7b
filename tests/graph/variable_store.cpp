// Variables and scopes that several graphs share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include "support/error_of.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

TEST(VariableStore, GraphsThatShareOneUseTheSameVariables) {
  const auto store = std::make_shared<VariableStore>();
  Graph training(store), inference(store);
  const auto build = [](Graph& graph) {
    const Scope scope(graph, "fc");
    return graph.variable("kernel", DType::F32, {4, 2}, Init::ones());
  };
  const Tensor first = build(training);
  const Tensor second = build(inference);
  EXPECT_FALSE(first == second);
  EXPECT_EQ(first.name(), second.name());
  EXPECT_EQ(first.type(), second.type());
  ASSERT_EQ(store->variables().size(), 1U);
  EXPECT_EQ(store->find("fc/kernel"), &store->variables().front());
  EXPECT_EQ(store->variables().front().init, Init::ones());
  EXPECT_EQ(store->find("fc/bias"), nullptr);
}

TEST(VariableStore, AGraphOfItsOwnSharesNothing) {
  Graph one, two;
  one.variable("w", DType::F32, {1}, Init::zeros());
  EXPECT_EQ(two.store()->find("w"), nullptr);
}

TEST(VariableStore, TheSecondGraphMustAgreeOnTheType) {
  const auto store = std::make_shared<VariableStore>();
  Graph one(store), two(store);
  one.variable("w", DType::F32, {4}, Init::zeros());
  EXPECT_THAT(error_of([&] { two.variable("w", DType::F32, {5}, Init::zeros()); }),
              HasSubstr("variable 'w' is f32[4] and can't be reused as f32[5]"));
}

TEST(VariableStore, ASecondVariableOfANameInOneGraphIsStillAnError) {
  const auto store = std::make_shared<VariableStore>();
  Graph one(store), two(store);
  one.variable("w", DType::F32, {4}, Init::zeros());
  two.variable("w", DType::F32, {4}, Init::zeros());
  EXPECT_THAT(error_of([&] { two.variable("w", DType::F32, {4}, Init::zeros()); }), HasSubstr("exists already"));
}

TEST(VariableStore, ReuseFindsVariablesThatAnotherGraphMade) {
  const auto store = std::make_shared<VariableStore>();
  Graph one(store), two(store);
  one.variable("net/w", DType::F32, {4}, Init::zeros());
  const Scope scope(*store, "net", Scope::Mode::Reuse);
  EXPECT_EQ(two.variable("w", DType::F32, {4}, Init::zeros()).name(), "net/w");
  EXPECT_THAT(error_of([&] { two.variable("b", DType::F32, {4}, Init::zeros()); }),
              HasSubstr("'net/b' does not exist and can't be reused"));
}

TEST(VariableStore, LayersAreCountedForEachGraphAndForEachOpeningOfAScope) {
  const auto store = std::make_shared<VariableStore>();
  Graph one(store), two(store);
  EXPECT_EQ(one.layer_name("dense"), "dense");
  EXPECT_EQ(one.layer_name("dense"), "dense_1");
  EXPECT_EQ(two.layer_name("dense"), "dense");
  for (int opening = 0; opening < 2; ++opening) {
    const Scope scope(two, "block");
    EXPECT_EQ(two.layer_name("dense"), "dense");
    EXPECT_EQ(one.layer_name("dense"), "dense_1");  // the scope is that of the store
  }
}

TEST(VariableStore, OutlivesTheGraphThatMadeIt) {
  std::shared_ptr<VariableStore> store;
  {
    Graph graph;
    graph.variable("w", DType::F32, {4}, Init::zeros());
    store = graph.store();
  }
  EXPECT_NE(store->find("w"), nullptr);
  EXPECT_THAT(error_of([] { Graph graph(nullptr); }), HasSubstr("needs a store"));
}

}  // namespace
}  // namespace plimsoll
