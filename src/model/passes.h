// Forward passes of a model with their placeholders and objectives, from which all kinds of training graphs are built.
#pragma once

#include "model/training.h"

namespace plimsoll::model {

struct BuiltPass {
  NamedTensors outputs;
  Objective objective;
};
// A forward pass with its objective, which reads the targets of `of`.
BuiltPass build_pass(Graph& graph, const ModelSpec& spec, const NamedTensors& inputs, const TrainingGraph& of,
                     bool training);

// Adds placeholders for what is fed; returns the inputs of the model, made from them.
NamedTensors add_fed(Graph& graph, const ModelSpec& spec, const InputConversion& conversion, TrainingGraph& to);

// The inference pass with its objective.
void add_evaluation(Graph& graph, const ModelSpec& spec, const NamedTensors& inputs, TrainingGraph& to);

}  // namespace plimsoll::model
