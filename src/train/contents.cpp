#include "train/contents.h"

#include "model/training.h"
#include "train/training.h"

namespace plimsoll::train {

namespace {

// The type of the only one, or all with their names.
std::string list_types(const std::vector<NamedType>& tensors) {
  if (tensors.size() == 1) return to_string(tensors[0].type);
  std::string text;
  for (const auto& [name, type] : tensors) text += (text.empty() ? "" : ", ") + name + " " + to_string(type);
  return text;
}

}  // namespace

report::ModelFacts inspect_model(const Spec& spec) {
  const ModelSpec model = model_of(spec);
  Graph graph;
  model::build_training(graph, model, optimiser_of(spec), {}, 1, spec.freeze);
  report::ModelFacts facts;
  facts.name = model.name();
  facts.input = list_types(model.inputs);
  facts.labels = list_types(model.targets);
  facts.weights = count_weights(graph);
  facts.nodes = static_cast<int64_t>(graph.body().nodes().size());
  facts.graph_bytes = graph.size_bytes();
  for (const graph::Node& node : graph.body().nodes()) ++facts.operators[std::string(node.op->name)];
  for (const graph::Variable& variable : graph.body().variables()) {
    const graph::Value& value = graph.body().value(variable.value);
    const Bytes bytes = element_count(value.type.shape).fixed() * size_of(value.type.dtype);
    const bool is_state = variable.role() == VariableRole::Optimiser;
    (is_state ? facts.optimiser_bytes : facts.weight_bytes) += bytes;
    if (!is_state) facts.variables.push_back({std::string(graph.body().name(value)), to_string(value.type), bytes});
  }
  return facts;
}

std::string model_graph_text(const Spec& spec) {
  Graph graph;
  model::build_training(graph, model_of(spec), optimiser_of(spec), {}, 1, spec.freeze);
  return to_string(graph);
}

}  // namespace plimsoll::train
