// One graph for training a model: forward, backward and update, and the inference pass over the same variables.
#pragma once

#include "autodiff/optimiser.h"
#include "model/zoo.h"

namespace plimsoll {

struct TrainingGraph {
  Tensor input, labels;  // placeholders of both passes
  // The training pass.
  Tensor loss;
  Tensor correct;        // right predictions in the batch; unset where they are not counted
  Tensor learning_rate;  // a scalar to be set before each step
  Updates updates;
  // The inference pass.
  Tensor answer;  // logits, or what the model's judge makes its loss from
  Tensor eval_loss;
  Tensor eval_correct;
};

TrainingGraph build_training(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser);

}  // namespace plimsoll
