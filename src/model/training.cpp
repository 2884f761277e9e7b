#include "model/training.h"

namespace plimsoll::model {
namespace {

struct Pass {
  NamedTensors outputs;
  Objective objective;
};

Pass build_pass(Graph& graph, const ModelSpec& spec, const TrainingGraph& of, bool training) {
  const NamedTensors outputs = spec.model(of.inputs, training);
  // The objective may share variables of the model, such as an embedding that is also the last layer.
  const Scope scope(graph, spec.name(), Scope::Mode::Reuse);
  return {outputs, spec.objective(outputs, of.targets)};
}

NamedTensors add_placeholders(Graph& graph, const std::vector<NamedType>& types) {
  NamedTensors tensors;
  for (const auto& [name, type] : types) tensors.add(name, graph.placeholder(name, type.dtype, type.shape));
  return tensors;
}

}  // namespace

TrainingGraph build_training(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser) {
  TrainingGraph result;
  result.inputs = add_placeholders(graph, spec.inputs);
  result.targets = add_placeholders(graph, spec.targets);
  const Pass training = build_pass(graph, spec, result, true);
  result.loss = training.objective.loss;
  result.correct = training.objective.correct;
  result.updates = minimize(result.loss, optimiser);
  result.learning_rate = result.updates.learning_rate;
  // After the backward pass, which walks over all nodes that there are.
  const Pass inference = build_pass(graph, spec, result, false);
  result.outputs = inference.outputs;
  result.eval_loss = inference.objective.loss;
  result.eval_correct = inference.objective.correct;
  return result;
}

}  // namespace plimsoll::model
