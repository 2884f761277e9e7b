// One rank of a pipeline: the training step of its layers, unrolled over the micro-batches of a batch. Activations come
// from the rank before and go to the rank after, gradients the other way; one update follows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/training.h"

namespace plimsoll::model {

struct StagePlace {
  int stage = 0, stages = 1;
  int64_t micro_batches = 0;                   // of a batch; 0: there is no pipeline
  int64_t samples = 0;                         // of a micro-batch
  std::vector<std::string> first_layers = {};  // of the stages but the first
  bool is_set() const { return micro_batches > 0; }
  bool is_last() const { return stage + 1 == stages; }
};

// The graph of one stage; its batch dimension is a micro-batch.
struct StageGraph {
  // Placeholders are those of the inference pass, and also of the first micro-batch; `updates` is the whole step.
  // Losses and sums are those of `whole` where this rank has none: they have the same shapes.
  TrainingGraph passes;
  std::vector<std::vector<Tensor>> fed;  // by micro-batch: inputs, then targets
  std::vector<Tensor> fetches;           // of the step on the last rank: loss and sums, by micro-batch
  std::vector<Tensor> eval_fetches;      // of the inference pass on the last rank
  std::vector<NodeId> eval_exchanges;    // that are part of the inference pass
  std::shared_ptr<Graph> whole;          // both passes of all ranks, with the same variables
};

// The gradient of the batch is the mean over its samples, added up in the order of micro-batches. Layers keep their
// statistics by micro-batch. Throws Error(Usage) for layers that can't be so cut, and for a loss that is scaled.
StageGraph build_stage(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser,
                       const InputConversion& conversion, const Freeze& freeze, const StagePlace& place);

}  // namespace plimsoll::model
