#include "model/rewrite.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/memory_line.h>
#include <plimsoll/ops.h>
#include <plimsoll/session.h>
#include "graph/text.h"
#include "model/training.h"
#include "ops/ops.h"

namespace plimsoll {
namespace {

using model::replay_spec;
using model::ReplayedNode;
using model::ReplayedVariable;
using model::Rewrite;
using model::trace;
using model::TracedModel;
using ::testing::HasSubstr;

// Small enough to build quickly, with every part of the original.
ModelOptions small(std::string_view name) {
  ModelOptions options;
  if (name == "bert-base" || name.starts_with("gpt2-")) {
    options.layers = 2;
    options.width = 64;
    options.sequence = 16;
    options.dropout = 0.1;
  }
  if (name == "dense-chain") options.layers = 20;
  return options;
}

ModelSpec small_model(std::string_view name) { return find_model(name, small(name)); }

ModelSpec replayed(const ModelSpec& spec, const Rewrite& rewrite = {}) {
  return replay_spec(spec, std::make_shared<const TracedModel>(trace(spec)), rewrite);
}

std::string training_text(const ModelSpec& spec, int64_t accumulate = 1, const char* split = nullptr) {
  Graph graph;
  if (split != nullptr) graph.allow_split(split);
  model::build_training(graph, spec, Optimiser::adam(), {}, accumulate);
  return to_string(graph);
}

class Replayed : public ::testing::TestWithParam<std::string> {};

TEST_P(Replayed, TrainingIsTheSameGraph) {
  const ModelSpec spec = small_model(GetParam());
  const ModelSpec again = replayed(spec);
  EXPECT_EQ(training_text(again), training_text(spec));
  EXPECT_EQ(training_text(again, 3), training_text(spec, 3));
  EXPECT_EQ(training_text(again, 1, "batch_norm"), training_text(spec, 1, "batch_norm"));
  EXPECT_EQ(training_text(replayed(again)), training_text(spec));
}

TEST_P(Replayed, InferenceIsTheSameGraph) {
  const ModelSpec spec = small_model(GetParam());
  for (const bool training : {false, true}) {
    Graph first, second;
    model::build_inference(first, spec, training);
    model::build_inference(second, replayed(spec), training);
    EXPECT_EQ(to_string(second), to_string(first));
  }
}

// What a file of a model relies on.
TEST_P(Replayed, PassesSurviveTheirTextForm) {
  const TracedModel traced = trace(small_model(GetParam()));
  for (const auto* pass : {&traced.inference, &*traced.training}) {
    const std::string text = to_string(*pass->graph);
    Graph copy;
    graph::parse_graph(text, ops::find_op, copy);
    EXPECT_EQ(to_string(copy), text);
    EXPECT_LE(model::end_of(copy.body()).nodes, model::end_of(pass->graph->body()).nodes);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Replayed, ::testing::ValuesIn(model_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// A small net with batch norm, dropout and a residual.
Model small_net() {
  return {"net", [](Tensor x, bool training) {
            Tensor y = layers::dense(x, 6);
            y = layers::batch_norm(y, training);
            y = layers::dropout(relu(y), 0.5, training);
            return layers::dense(y + layers::dense(y, 6), 3);
          }};
}

ModelSpec small_spec() {
  ModelSpec spec;
  spec.model = small_net();
  spec.inputs = {{"input", {DType::F32, {Dim::batch(), 4}}}};
  spec.targets = {{"labels", {DType::I32, {Dim::batch()}}}};
  spec.objective = [](const NamedTensors& outputs, const NamedTensors& targets) {
    return Objective{sparse_cross_entropy(outputs.only(), targets.only())};
  };
  return spec;
}

// The losses and then the weights of some steps, bit for bit.
std::vector<float> train_steps(const ModelSpec& spec) {
  Graph graph;
  const model::TrainingGraph passes = model::build_training(graph, spec, Optimiser::adam());
  Session session(graph, MemoryLine(512 * MiB), {.seed = 7});
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 5 % 7) - 3;
  const std::vector<int32_t> labels{0, 1, 2, 0, 1, 2, 0, 1};
  Step step = session.step({.fetch = {passes.loss}, .update = passes.updates, .batch = 8});
  std::vector<float> numbers;
  for (int i = 0; i < 5; ++i)
    numbers.push_back(step({{passes.input(), x}, {passes.labels(), labels}})[0].item<float>());
  for (const graph::Variable& variable : graph.body().variables()) {
    if (variable.stored->type.dtype != DType::F32) continue;
    std::vector<float> values(static_cast<size_t>(element_count(variable.stored->type.shape).fixed()));
    session.get(Tensor(graph, variable.value), values);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

TEST(Rewrite, TrainsTheSameBits) {
  const std::vector<float> original = train_steps(small_spec()), again = train_steps(replayed(small_spec()));
  ASSERT_GT(original.size(), 100u);
  EXPECT_EQ(original, again);
  EXPECT_NE(original[0], original[4]);
}

std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.body().nodes()) names.emplace_back(node.op->name);
  return names;
}

std::vector<std::string> variables_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Variable& variable : graph.body().variables()) names.push_back(variable.stored->name);
  return names;
}

TEST(Rewrite, NodesCanBeOthers) {
  Rewrite rewrite;
  std::vector<std::string> seen;
  rewrite.node = [&](ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
    seen.push_back(node.name);
    if (node.op().name != "relu") return std::nullopt;
    EXPECT_EQ(node.input_name(0), "batch_norm/batch_norm_inference");
    return std::vector<Tensor>{gelu(node.inputs[0])};
  };
  Graph graph;
  const model::TrainingGraph passes = model::build_inference(graph, replayed(small_spec(), rewrite));
  EXPECT_THAT(operators_of(graph), ::testing::Contains("gelu"));
  EXPECT_THAT(operators_of(graph), ::testing::Not(::testing::Contains("relu")));
  EXPECT_THAT(seen, ::testing::Contains("dense_1/matmul"));
  EXPECT_EQ(to_string(passes.outputs.only().type()), "f32[B,3]");
}

TEST(Rewrite, SettingsOfANodeCanChange) {
  Rewrite rewrite;
  rewrite.node = [](ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
    if (node.attrs.has("epsilon")) node.attrs.set("epsilon", 0.5);
    return std::nullopt;
  };
  Graph graph;
  model::build_inference(graph, replayed(small_spec(), rewrite));
  EXPECT_THAT(to_string(graph), HasSubstr("epsilon=0.5"));
}

TEST(Rewrite, VariablesCanBeOthersOrNone) {
  Rewrite rewrite;
  rewrite.variable = [](const ReplayedVariable& variable) -> std::optional<Tensor> {
    if (variable.name == "dense/kernel")
      return scale(variable.graph.variable("dense/half", DType::F32, variable.stored.type.shape, variable.stored.init),
                   2);
    if (variable.name == "dense_2/kernel") return Tensor();
    return std::nullopt;
  };
  rewrite.node = [](ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
    if (node.inputs.size() < 2 || node.inputs[1].is_set()) return std::nullopt;
    EXPECT_EQ(node.input_name(1), "dense_2/kernel");
    return std::vector<Tensor>{slice(node.inputs[0], 1, 0, 3)};
  };
  const TracedModel changed = model::rewrite(small_spec(), rewrite);
  const std::vector<std::string> variables = variables_of(*changed.training->graph);
  EXPECT_THAT(variables, ::testing::Contains("net/dense/half"));
  EXPECT_THAT(variables, ::testing::Not(::testing::Contains("net/dense/kernel")));
  EXPECT_THAT(variables, ::testing::Not(::testing::Contains("net/dense_2/kernel")));
  // Training passes too: both share the variables.
  EXPECT_GT(train_steps(replay_spec(small_spec(), std::make_shared<const TracedModel>(changed))).size(), 5u);
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Rewrite, RefusesWhatDoesNotFit) {
  const ModelSpec spec = replayed(small_spec());
  Graph graph;
  EXPECT_THAT(message_of([&] {
                spec.model(graph.placeholder("x", DType::F32, {Dim::batch(), 5}));
              }),
              HasSubstr("'input' is f32[B,5] but the model takes f32[B,4]"));
  EXPECT_THAT(message_of([&] {
                spec.model(graph.placeholder("y", DType::I32, {Dim::batch(), 4}));
              }),
              HasSubstr("i32[B,4]"));
  Rewrite rewrite;
  rewrite.node = [](ReplayedNode&) { return std::optional(std::vector<Tensor>{}); };
  EXPECT_THAT(message_of([&] {
                Graph other;
                model::build_inference(other, replayed(small_spec(), rewrite));
              }),
              HasSubstr("has 1 outputs but 0 were put in their place"));
  const auto inference = std::make_shared<const TracedModel>(trace(small_spec(), model::Passes::Inference));
  EXPECT_THAT(message_of([&] { training_text(replay_spec(small_spec(), inference)); }),
              HasSubstr("made for inference and can't be trained"));
}

// Two calls in one graph share the variables, and draw random masks of their own.
TEST(Rewrite, CanBeCalledTwice) {
  const ModelSpec spec = replayed(small_spec());
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 4});
  spec.model(x, true);
  const size_t variables = graph.body().variables().size();
  spec.model(x, true);
  EXPECT_EQ(graph.body().variables().size(), variables);
  std::vector<int64_t> keys;
  for (const graph::Node& node : graph.body().nodes())
    if (node.op->name == "dropout") keys.push_back(graph.body().attrs(node).i("key"));
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_NE(keys[0], keys[1]);
}

// As in eager code: the batch is a number, and so it is in the settings of nodes.
TEST(Rewrite, TheBatchMayBeANumber) {
  const ModelSpec spec = replayed(find_model("lenet"));
  Graph graph;
  const Tensor y = spec.model(graph.placeholder("x", DType::F32, {12, 1, 28, 28}), true);
  EXPECT_EQ(to_string(y.type()), "f32[12,10]");
}

}  // namespace
}  // namespace plimsoll
