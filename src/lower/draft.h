// The part of a graph that one step needs, in a form that rewrites can change before kernels are chosen.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct DraftNode {
  const Op* op;
  const Attrs* attrs;
  NodeId origin;  // the graph's node that names it
  std::vector<ValueId> in, out;
};

struct Draft {
  const Graph* graph;
  std::vector<DraftNode> nodes;  // in program order
  std::vector<ValueId> fetches;  // values that must be there after the step
  std::deque<Attrs> own_attrs;   // settings that rewrites made

  const TensorType& type(ValueId value) const { return graph->value(value).type; }
  const Attrs* keep(Attrs attrs) { return &own_attrs.emplace_back(std::move(attrs)); }
};

// The nodes that `fetches` and `updates` (nodes that change variables) depend on.
Draft make_draft(const Graph& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates);

// Who uses each value, for rewrites that ask "does anyone else need this?".
class Uses {
 public:
  explicit Uses(const Draft& draft);
  int count(ValueId value) const { return counts_[static_cast<size_t>(value)]; }  // a fetch counts as a use
  // Index of the node that makes the value; -1 for variables, inputs and constants.
  int producer(ValueId value) const { return producers_[static_cast<size_t>(value)]; }

 private:
  std::vector<int> counts_;
  std::vector<int> producers_;
};

// Drops nodes marked by an operator that was set to null.
void remove_dead(Draft& draft);

}  // namespace plimsoll
