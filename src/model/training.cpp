#include "model/training.h"

#include <span>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "autodiff/shards.h"
#include "autodiff/treatment.h"
#include "graph/body.h"
#include "model/freeze.h"
#include "model/passes.h"

namespace plimsoll::model {

BuiltPass build_pass(Graph& graph, const ModelSpec& spec, const NamedTensors& inputs, const TrainingGraph& of,
                     bool training) {
  const NamedTensors outputs = spec.model(inputs, training);
  // The objective may share variables of the model, such as an embedding that is also the last layer.
  const Scope scope(graph, spec.name(), Scope::Mode::Reuse);
  const auto& objective = training && spec.training_objective ? spec.training_objective : spec.objective;
  return {outputs, objective(outputs, of.targets)};
}

namespace {

NamedTensors add_placeholders(Graph& graph, const std::vector<NamedType>& types) {
  NamedTensors tensors;
  for (const auto& [name, type] : types) tensors.add(name, graph.placeholder(name, type.dtype, type.shape));
  return tensors;
}

// One number for each channel, along the second dimension.
Tensor by_channel(Graph& graph, const std::vector<float>& numbers, const Shape& shape) {
  if (numbers.size() == 1) return graph.scalar(numbers[0]);
  const auto count = static_cast<int64_t>(numbers.size());
  if (shape.rank() < 2 || shape[1].count() != count)
    throw Error(fmt::format("{} means or deviations do not match an input of {}; give one for each channel, or one",
                            count, to_string(shape)),
                ErrorKind::Usage);
  Shape across{count};
  for (int axis = 2; axis < shape.rank(); ++axis) across.push_back(1);
  return graph.constant(DType::F32, across, std::as_bytes(std::span(numbers)));
}

NamedTensors convert(Graph& graph, const NamedTensors& inputs, const ModelSpec& spec, const InputConversion& by) {
  NamedTensors converted;
  for (const auto& [name, fed] : inputs) {
    const DType wanted = spec.inputs.at(converted.size()).type.dtype;
    const bool is_stored_otherwise = fed.dtype() != wanted;
    if (!is_stored_otherwise && (by.mean.empty() || wanted != DType::F32)) {
      converted.add(name, fed);
      continue;
    }
    Tensor x = cast(fed, DType::F32);
    if (is_stored_otherwise && by.scale != 1) x = scale(x, static_cast<double>(by.scale));
    if (!by.mean.empty()) x = x - by_channel(graph, by.mean, fed.shape());
    if (!by.deviation.empty()) x = x / by_channel(graph, by.deviation, fed.shape());
    converted.add(name, x);
  }
  return converted;
}

}  // namespace

NamedTensors add_fed(Graph& graph, const ModelSpec& spec, const InputConversion& conversion, TrainingGraph& to) {
  std::vector<NamedType> fed = spec.inputs;
  for (size_t i = 0; i < conversion.stored.size(); ++i) fed.at(i).type.dtype = conversion.stored[i];
  to.inputs = add_placeholders(graph, fed);
  to.targets = add_placeholders(graph, spec.targets);
  const NamedTensors converted = convert(graph, to.inputs, spec, conversion);
  return spec.prepare ? spec.prepare(converted) : converted;
}

void add_evaluation(Graph& graph, const ModelSpec& spec, const NamedTensors& inputs, TrainingGraph& to) {
  const BuiltPass inference = build_pass(graph, spec, inputs, to, false);
  to.outputs = inference.outputs;
  to.eval_loss = inference.objective.loss;
  to.eval_sums = inference.objective.sums;
}

namespace {

// Forward, backward and update.
void build_training_pass(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser, const NamedTensors& inputs,
                         int64_t accumulate, const Freeze& freeze, int shard_levels,
                         const autodiff::SharedTensors& shared, TrainingGraph& result) {
  const BuiltPass training = build_pass(graph, spec, inputs, result, true);
  result.loss = training.objective.loss;
  result.sums = training.objective.sums;
  const std::vector<Tensor> trained = freeze.is_empty() ? std::vector<Tensor>() : list_trained(graph, freeze);
  std::vector<Tensor> weights = trained;
  for (const graph::Variable& variable : graph.body().variables())
    if (freeze.is_empty() && variable.role() == VariableRole::Weight) weights.emplace_back(graph, variable.value);
  if (const Tensor more = autodiff::penalty(weights); more.is_set()) result.loss = result.loss + more;
  if (shard_levels >= 0) {
    const autodiff::ShardedUpdates sharded =
        autodiff::update_in_shards(result.loss, optimiser, shard_levels, trained, shared);
    result.shared = sharded.shared;
    result.updates = sharded.add;
    result.merges = sharded.merges;
    result.apply = sharded.apply;
  } else if (accumulate > 1) {
    const Accumulation accumulation = plimsoll::accumulate(result.loss, optimiser, trained);
    result.updates = accumulation.add;
    result.apply = accumulation.apply;
    result.accumulated_batches = accumulation.batches;
  } else {
    result.updates = minimize(result.loss, optimiser, trained);
  }
  for (Updates* updates : {&result.updates, &result.apply}) drop_frozen_statistics(graph, freeze, *updates);
  result.learning_rate = result.updates.learning_rate;
}

}  // namespace

TrainingGraph build_training(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser,
                             const InputConversion& conversion, int64_t accumulate, const Freeze& freeze,
                             int shard_levels, const autodiff::SharedTensors& shared) {
  if (accumulate < 1)
    throw Error(fmt::format("an update needs at least 1 batch but accumulate is {}", accumulate), ErrorKind::Usage);
  TrainingGraph result;
  const NamedTensors inputs = add_fed(graph, spec, conversion, result);
  if (spec.can_train)
    build_training_pass(graph, spec, optimiser, inputs, accumulate, freeze, shard_levels, shared, result);
  // Added after the backward pass, which walks over all nodes there are at that time.
  add_evaluation(graph, spec, inputs, result);
  return result;
}

TrainingGraph build_evaluation(Graph& graph, const ModelSpec& spec, const InputConversion& conversion) {
  TrainingGraph result;
  add_evaluation(graph, spec, add_fed(graph, spec, conversion, result), result);
  return result;
}

TrainingGraph build_inference(Graph& graph, const ModelSpec& spec, bool training) {
  TrainingGraph result;
  result.inputs = add_placeholders(graph, spec.inputs);
  result.outputs = spec.model(spec.prepare ? spec.prepare(result.inputs) : result.inputs, training);
  return result;
}

}  // namespace plimsoll::model
