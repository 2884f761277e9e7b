#include "model/training.h"

#include <algorithm>
#include <ctime>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "graph/text.h"
#include "ops/ops.h"

namespace plimsoll {
namespace {

// Small enough to build quickly, with every part of the original.
ModelOptions small(std::string_view name) {
  ModelOptions options;
  if (name == "bert-base" || name.starts_with("gpt2-")) {
    options.layers = 4;
    options.width = 128;
    options.sequence = 32;
  }
  if (name == "dense-chain") options.layers = 20;
  return options;
}

class Training : public ::testing::TestWithParam<std::string> {};

TEST_P(Training, IsOneGraphWithSharedVariables) {
  const ModelSpec spec = find_model(GetParam(), small(GetParam()));
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, spec, Optimiser::adam());
  for (const auto& [name, type] : spec.inputs) EXPECT_EQ(training.inputs[name].type(), type);
  for (const auto& [name, type] : spec.targets) EXPECT_EQ(training.targets[name].type(), type);
  for (const Tensor scalar : {training.loss, training.eval_loss, training.learning_rate})
    EXPECT_EQ(to_string(scalar.type()), "f32[]");
  EXPECT_EQ(training.sums.size(), spec.metrics.size());
  EXPECT_EQ(training.eval_sums.size(), spec.metrics.size());
  for (const Tensor sum : training.sums) EXPECT_EQ(to_string(sum.type()), "f32[]");

  // Every weight is trained, none twice; the inference pass added none.
  Graph alone;
  NamedTensors inputs;
  for (const auto& [name, type] : spec.inputs) inputs.add(name, alone.placeholder(name, type.dtype, type.shape));
  spec.model(inputs);
  EXPECT_EQ(count_weights(graph), count_weights(alone));
  std::set<ValueId> updated;
  size_t weights = 0;
  for (const NodeId node : training.updates.nodes) {
    const ValueId changed = graph.body().inputs(graph.body().node(node))[0];
    if (graph.body().variable_of(changed).role() != VariableRole::Weight) continue;
    EXPECT_TRUE(updated.insert(changed).second);
  }
  for (const graph::Variable& variable : graph.body().variables())
    weights += variable.role() == VariableRole::Weight ? 1 : 0;
  EXPECT_EQ(updated.size(), weights);
}

TEST_P(Training, SurvivesItsTextForm) {
  Graph graph;
  model::build_training(graph, find_model(GetParam(), small(GetParam())), Optimiser::adam());
  const std::string text = to_string(graph);
  Graph copy;
  graph::parse_graph(text, ops::find_op, copy);
  EXPECT_EQ(to_string(copy), text);
}

INSTANTIATE_TEST_SUITE_P(Models, Training, ::testing::ValuesIn(model_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Training, InferenceHasNeitherDropoutNorBatchStatistics) {
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, find_model("mobilenet_v2"), Optimiser::sgd());
  std::vector<bool> needed(graph.body().values().size(), false);
  needed[static_cast<size_t>(training.outputs.only().id())] = true;
  for (auto id = static_cast<NodeId>(graph.body().nodes().size()) - 1; id >= 0; --id) {
    const graph::Node& node = graph.body().node(id);
    if (!needed[static_cast<size_t>(node.first_output)] || node.outputs == 0) continue;
    EXPECT_NE(node.op->name, "dropout");
    for (const ValueId input : graph.body().inputs(node)) needed[static_cast<size_t>(input)] = true;
  }
}

TEST(Training, ALongChainIsBuiltQuicklyAndKeptSmall) {
  const std::clock_t start = std::clock();  // of the processor: the machine may be busy
  Graph graph;
  model::build_training(graph, find_model("dense-chain"), Optimiser::sgd());
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const auto nodes = static_cast<Bytes>(graph.body().nodes().size());
  RecordProperty("build_ms", fmt::format("{:.1f}", seconds * 1e3));
  RecordProperty("bytes_per_node", fmt::format("{}", graph.size_bytes() / nodes));
  EXPECT_GT(nodes, 40000);
  EXPECT_LT(graph.size_bytes() / nodes, 1024);
  EXPECT_LT(seconds, 1);  // about 0.1
}

}  // namespace
}  // namespace plimsoll
