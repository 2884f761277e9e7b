// The masks of a training step that prunes, and the nodes that update and apply them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <plimsoll/graph.h>
#include <plimsoll/model.h>

namespace plimsoll::model {

struct PrunedWeights {
  std::vector<NodeId> nodes;  // count a step, change masks by the schedule, apply them
  Tensor step;                // the variable "pruning/step", i64[]: how often these were run
};

// Adds these nodes after all updates of the weights; to be run once before the first step and then in every step.
// `trained` are the weights that may be pruned. Names of the model's variables begin with `scope`. Throws Error(Usage)
// when no weight is pruned.
PrunedWeights add_pruning(Graph& graph, const Pruning& pruning, std::span<const Tensor> trained,
                          std::string_view scope);

// The first run of these nodes, counted from 1, that makes masks; 0: none does.
int64_t first_pruning_step(const Pruning& pruning);

// What the masks of a graph take.
Bytes mask_bytes(const Graph& graph);

}  // namespace plimsoll::model
