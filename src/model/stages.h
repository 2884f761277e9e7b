// How the layers of a model are shared by the ranks of a pipeline, and in what order a rank works through its
// micro-batches.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/body.h"

namespace plimsoll::model {

// A piece of a graph in program order.
struct NodeRange {
  NodeId begin = 0, end = 0;
};

struct StageCut {
  std::vector<int> stage_of;                   // by node; -1: not of the pass, or needed by nothing
  std::vector<std::vector<ValueId>> crossing;  // by stage but the last: values that go on to the next rank
  NodeId first_node(int stage) const;          // in program order; -1: the stage has none
};

// A stage begins with the first node of each of these layers, named within `scope`. Nodes keep their program order, so
// each value goes forward; one that is used several stages later passes through the ranks between. `values` and `nodes`
// are the results of the pass: nodes that none of them needs belong to no stage. Throws Error(Usage) for a layer that
// is not there, comes too early or too late, and for statistics that two stages would keep.
StageCut cut_into_stages(const graph::Body& graph, const NodeRange& pass, std::string_view scope,
                         const std::vector<std::string>& first_layers, std::span<const ValueId> values,
                         std::span<const NodeId> nodes);

// What a rank does in a step, in order: one forward, one backward (1F1B), so that at most `stages - stage`
// micro-batches are under way. Exchanges with the rank before receive the activations of `forward` and send the
// gradients of `backward`; those with the rank after do the opposite. -1: nothing.
struct StageTurn {
  enum class Kind { Forward, Backward, ExchangeBefore, ExchangeAfter };
  Kind kind = Kind::Forward;
  int64_t forward = -1, backward = -1;
  bool operator==(const StageTurn&) const = default;
};
std::vector<StageTurn> list_turns(int stage, int stages, int64_t micro_batches);

}  // namespace plimsoll::model
