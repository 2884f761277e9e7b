// The passes of a model before anything is made of them: what training graphs of all kinds begin with.
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

// Placeholders for what is fed; gives the inputs of the model that are made of them.
NamedTensors add_fed(Graph& graph, const ModelSpec& spec, const InputConversion& conversion, TrainingGraph& to);

// The inference pass with its objective.
void add_evaluation(Graph& graph, const ModelSpec& spec, const NamedTensors& inputs, TrainingGraph& to);

}  // namespace plimsoll::model
