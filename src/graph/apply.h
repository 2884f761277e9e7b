// The one way in which operators are called: what it does depends on where the inputs live.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "graph/attrs.h"
#include "graph/op.h"

namespace plimsoll::graph {

// The outputs of a node, which are consecutive values. Converts to the first where one tensor is expected.
class Outputs {
 public:
  Outputs(Graph& graph, NodeId node, ValueId first, int count)
      : graph_(&graph), node_(node), first_(first), count_(count) {}
  NodeId node() const { return node_; }
  int size() const { return count_; }
  Tensor operator[](int i) const { return {*graph_, first_ + i}; }
  operator Tensor() const { return (*this)[0]; }  // NOLINT(google-explicit-constructor)

 private:
  Graph* graph_;
  NodeId node_;
  ValueId first_;
  int count_;
};

// Inputs of a graph: adds a node to it. Eager inputs: records the call. Refuses, with the operator's name in the
// message, inputs that are unset or of several graphs.
Outputs apply(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs = {}, Name name = {});
inline Outputs apply(const Op& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {}, Name name = {}) {
  return apply(op, std::span<const Tensor>(inputs.begin(), inputs.size()), attrs, name);
}

// An operator without inputs, in that graph.
Outputs apply_in(Graph& graph, const Op& op, const Attrs& attrs = {}, Name name = {});

}  // namespace plimsoll::graph
