// One graph for training a model: forward, backward and update, and the inference pass over the same variables.
#pragma once

#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>

namespace plimsoll::model {

struct TrainingGraph {
  NamedTensors inputs, targets;  // placeholders of both passes
  // The training pass.
  Tensor loss;
  Tensor correct;        // right predictions in the batch; unset where they are not counted
  Tensor learning_rate;  // a scalar to be set before each step
  Updates updates;
  // The inference pass.
  NamedTensors outputs;  // logits, or what the objective is made from
  Tensor eval_loss;
  Tensor eval_correct;

  Tensor input() const { return inputs.only(); }
  Tensor labels() const { return targets.only(); }
};

TrainingGraph build_training(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser);

}  // namespace plimsoll::model
