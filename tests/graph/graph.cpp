#include <plimsoll/graph.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/apply.h"
#include "graph/body.h"
#include "graph/text.h"
#include "support/error_of.h"

namespace plimsoll::graph {
namespace {

using plimsoll::testing::error_of;
using ::testing::HasSubstr;

// Graph tests need no real operator: this one takes any inputs and gives the first one's type.
void infer_same(Infer& n) {
  n.expect_inputs(1, 2);
  n.out = {n.in[0]};
}
const Op kSame{.name = "same", .infer = infer_same, .types = {kAnyType}};
void infer_pair(Infer& n) { n.out = {n.in[0], {DType::I32, {}}}; }
const Op kPair{.name = "pair", .infer = infer_pair};
const Op* find_test_op(std::string_view name) {
  if (name == "same") return &kSame;
  return name == "pair" ? &kPair : nullptr;
}

TEST(Graph, NamesAreMadeUniqueWithinTheirScope) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  const Tensor a = apply(kSame, {x});
  const Tensor b = apply(kSame, {a});
  EXPECT_EQ(a.name(), "same");
  EXPECT_EQ(b.name(), "same_1");
  const Scope scope(graph, "block");
  EXPECT_EQ(Tensor(apply(kSame, {b})).name(), "block/same");
  EXPECT_EQ(Tensor(apply(kSame, {b}, {}, "mine")).name(), "block/mine");
}

TEST(Graph, SecondVariableOfANameIsAnErrorUnlessReused) {
  Graph graph;
  Tensor first;
  {
    const Scope scope(graph, "fc");
    first = graph.variable("kernel", DType::F32, {4, 2}, Init::zeros());
    EXPECT_THAT(error_of([&] {
                  graph.variable("kernel", DType::F32, {4, 2}, Init::zeros());
                }),
                HasSubstr("variable 'fc/kernel' exists already as f32[4,2]"));
  }
  const Scope again(graph, "fc", Scope::Mode::Reuse);
  EXPECT_EQ(graph.variable("kernel", DType::F32, {4, 2}, Init::zeros()), first);
  EXPECT_THAT(error_of([&] {
                graph.variable("kernel", DType::F32, {4, 3}, Init::zeros());
              }),
              HasSubstr("can't be reused as f32[4,3]"));
  EXPECT_EQ(graph.body().variables().size(), 1U);
}

TEST(Graph, FinalisedGraphCantGrow) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch()});
  graph.finalize();
  EXPECT_THAT(error_of([&] { apply(kSame, {x}); }), HasSubstr("finalised"));
  EXPECT_THAT(error_of([&] { graph.placeholder("y", DType::F32, {}); }), HasSubstr("finalised"));
  EXPECT_THAT(error_of([&] { graph.variable("v", DType::F32, {1}, Init::zeros()); }), HasSubstr("finalised"));
}

TEST(Graph, RefusesTensorsOfAnotherGraph) {
  Graph one, two;
  const Tensor x = one.placeholder("x", DType::F32, {});
  const Tensor y = two.placeholder<float>("y", {});
  EXPECT_THAT(error_of([&] { apply(kSame, {x, y}); }), HasSubstr("same: input 1 belongs to another graph"));
  EXPECT_THAT(error_of([&] { apply(kSame, {Tensor()}); }), HasSubstr("same: input 0 is unset"));
  EXPECT_THAT(error_of([&] { apply(kSame, {}, {}, "none"); }), HasSubstr("same: has no input"));
}

TEST(Graph, RefusesVariablesThatDependOnTheBatch) {
  Graph graph;
  EXPECT_THAT(error_of([&] { graph.variable("v", DType::F32, {Dim::batch()}, Init::zeros()); }), HasSubstr("fixed"));
  EXPECT_THAT(error_of([&] { graph.variable("v", DType::F32, {0}, Init::zeros()); }), HasSubstr("positive"));
}

TEST(Graph, FindNamesWhatIsNear) {
  Graph graph;
  const Scope scope(graph, "fc");
  graph.variable("kernel", DType::F32, {4}, Init::zeros());
  EXPECT_EQ(graph.find("fc/kernel").name(), "fc/kernel");
  EXPECT_THAT(error_of([&] { graph.find("conv/kernel"); }), HasSubstr("near it: fc/kernel"));
}

TEST(Graph, PrintsAndParsesBack) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  graph.variable("w", DType::F32, {4, 2}, Init::uniform(-0.5, 0.25), VariableRole::Optimiser);
  graph.scalar(1.5F);
  Attrs attrs{
      {"axis", int64_t{1}}, {"eps", 1e-5}, {"mode", std::string("a mode")}, {"pads", Shape{1, 0, Dim::batch(3)}}};
  attrs.set("list", std::vector<double>{1, 2.5});
  const auto pair = apply(kPair, {x}, attrs, "p");
  apply(kSame, {pair[1], x});
  const std::string text = to_string(graph);
  EXPECT_THAT(text, HasSubstr("p = pair(x) axis=1 eps=1e-05 list=(1.0,2.5) mode=\"a mode\" pads=[1,0,3B]"));
  EXPECT_THAT(text, HasSubstr("same = same(p:1, x)"));
  Graph again;
  graph::parse_graph(text, find_test_op, again);
  EXPECT_EQ(to_string(again), text);
}

TEST(Graph, ParserNamesTheLine) {
  const auto parse = [](const std::string& text) {
    return error_of([&] {
      Graph graph;
      graph::parse_graph(text, find_test_op, graph);
    });
  };
  const std::string head = "plimsoll graph 1\n";
  EXPECT_THAT(parse(""), HasSubstr("empty"));
  EXPECT_THAT(parse("something else\n"), HasSubstr("line 1"));
  EXPECT_THAT(parse(head + "y = relu9(x)\n"), HasSubstr("line 2: operator 'relu9' is unknown"));
  EXPECT_THAT(parse(head + "placeholder x f32[B,4]\ny = same(z)\n"), HasSubstr("line 3: the graph has no value 'z'"));
  EXPECT_THAT(parse(head + "placeholder x f99[B]\n"), HasSubstr("'f99' is not an element type"));
  EXPECT_THAT(parse(head + "placeholder x f32[B\n"), HasSubstr("not a shape"));
  EXPECT_THAT(parse(head + "variable w f32[2] boss constant(0)\n"), HasSubstr("'boss' is not a role"));
  EXPECT_THAT(parse(head + "variable w f32[2] weight wild(0)\n"), HasSubstr("not an initial value"));
  EXPECT_THAT(parse(head + "constant c f32[] 00\n"), HasSubstr("needs 4 bytes"));
  EXPECT_THAT(parse(head + "constant c f32[] zz000000\n"), HasSubstr("hexadecimal"));
  EXPECT_THAT(parse(head + "placeholder x f32[B]\ny = same(x) axis\n"), HasSubstr("not key=value"));
  EXPECT_THAT(parse(head + "what is this\n"), HasSubstr("no statement"));
}

TEST(Graph, ANodeCostsFarLessThanAKilobyte) {
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  constexpr int kNodes = 10000;
  for (int i = 0; i < kNodes; ++i) {
    const Scope scope(graph, "layer" + std::to_string(i));
    x = apply(kSame, {x}, {{"axis", int64_t{1}}});
  }
  EXPECT_LT(graph.size_bytes() / kNodes, 400);
}

}  // namespace
}  // namespace plimsoll::graph
