// The nodes of a graph that one step needs, in a form that rewrites can change before kernels are chosen.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/body.h"
#include "kernels/packed_weights.h"

namespace plimsoll::lower {

struct DraftNode {
  const graph::Op* op;
  const graph::Attrs* attrs;
  NodeId origin;  // the graph's node that it comes from
  std::vector<ValueId> in, out;
};

// A value that a rewrite added; it is not in the graph.
struct DraftValue {
  TensorType type;
  std::string name;
};

// A variable that is kept in another form than the graph's: bytes of this type.
struct PackedVariable {
  TensorType type;
  kernels::PackedWeights form;
};

struct Draft {
  const graph::Body* graph = nullptr;
  std::vector<DraftNode> nodes;        // in program order
  std::vector<ValueId> fetches;        // values that must be there after the step
  std::deque<graph::Attrs> own_attrs;  // settings that rewrites made
  std::deque<DraftValue> own_values;   // numbered after those of the graph
  std::unordered_map<ValueId, PackedVariable> packed;

  size_t value_count() const { return graph->values().size() + own_values.size(); }
  bool is_own(ValueId value) const { return static_cast<size_t>(value) >= graph->values().size(); }
  const TensorType& type(ValueId value) const {
    if (is_own(value)) return own(value).type;
    const auto found = packed.find(value);
    return found != packed.end() ? found->second.type : graph->value(value).type;
  }
  std::string name(ValueId value) const;
  std::string name(const DraftNode& node) const;
  graph::ValueKind kind(ValueId value) const {
    return is_own(value) ? graph::ValueKind::Computed : graph->value(value).kind;
  }
  BatchRule batch_rule(const DraftNode& node) const;
  bool is_backward(const DraftNode& node) const { return graph->node(node.origin).is_backward; }

  const graph::Attrs* keep(graph::Attrs attrs) { return &own_attrs.emplace_back(std::move(attrs)); }
  ValueId add_value(const TensorType& type, std::string name);

 private:
  const DraftValue& own(ValueId value) const { return own_values[static_cast<size_t>(value) - graph->values().size()]; }
};

// The nodes that `fetches` and `updates` (nodes that change variables) depend on.
Draft make_draft(const graph::Body& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates);

// By value: for the output of a view, the value whose bytes it shows; else the value itself.
std::vector<ValueId> find_roots(const Draft& draft);

// How often each value is used, and which node produces it.
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

// Removes the nodes whose operator a rewrite has set to null.
void remove_dead(Draft& draft);

}  // namespace plimsoll::lower
