// One graph for training a model: forward, backward and update, and the inference pass over the same variables.
#pragma once

#include <vector>

#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>
#include "autodiff/sharding.h"

namespace plimsoll::model {

// How numbers that are fed are converted for a model that takes reals: y = (x * scale - mean) / deviation.
struct InputConversion {
  std::vector<DType> stored = {};                // of each placeholder; empty: the model's own types
  float scale = 1;                               // of inputs that are stored in another type than the model's
  std::vector<float> mean = {}, deviation = {};  // one for each channel (the second dimension), or one; empty: none
};

struct TrainingGraph {
  NamedTensors inputs, targets;  // placeholders of both passes
  // The training pass.
  Tensor loss;
  std::vector<Tensor> sums;     // of the metrics
  Tensor learning_rate;         // a scalar to be set before each step
  Updates updates;              // of a step; with accumulation, its gradients are added up
  Updates apply;                // the other step of an accumulation, which changes the weights; no nodes: there is none
  Tensor accumulated_batches;   // i64[], since the last such step; unset without accumulation
  std::vector<Updates> merges;  // in shards alone: steps between those of two shards (autodiff/shards.h)
  std::vector<autodiff::SharedVariable> shared;  // of which a rank holds a slice
  // The inference pass.
  NamedTensors outputs;  // logits, or what the objective is made from
  Tensor eval_loss;
  std::vector<Tensor> eval_sums;

  Tensor input() const { return inputs.only(); }
  Tensor labels() const { return targets.only(); }
};

// For a model that can't be trained, only the inference pass and its objective. `accumulate`: batches for each update.
// `shard_levels` (not negative where a batch is cut into shards) and `shared` are those of autodiff::update_in_shards.
// Throws Error(Usage) for means that do not match the channels.
TrainingGraph build_training(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser,
                             const InputConversion& conversion = {}, int64_t accumulate = 1, const Freeze& freeze = {},
                             int shard_levels = -1, const autodiff::SharedTensors& shared = {});

// The inference pass with its loss and metrics: no gradients, no variables of an optimiser.
TrainingGraph build_evaluation(Graph& graph, const ModelSpec& spec, const InputConversion& conversion = {});

// The inference pass alone, from the model's inputs to its outputs; or the forward pass as training has it.
TrainingGraph build_inference(Graph& graph, const ModelSpec& spec, bool training = false);

}  // namespace plimsoll::model
