// The handle that users and operators hold: a value of a graph being built.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/shape.h"

namespace plimsoll {

class Graph;

using ValueId = int32_t;
using NodeId = int32_t;
using Name = std::string_view;  // of a node; empty: the operator's, made unique

class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph& graph, ValueId id) : graph_(&graph), id_(id) {}

  bool is_set() const { return graph_ != nullptr; }
  Graph& graph() const {
    if (graph_ == nullptr) throw_unset();
    return *graph_;
  }
  // The same as a number to compare: null when unset.
  const Graph* owner() const { return graph_; }
  ValueId id() const { return id_; }

  // These throw Error when the tensor is unset.
  const TensorType& type() const;
  Shape shape() const { return type().shape; }  // a copy: the graph's values move while it grows
  DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
  // Negative axes count from the end.
  Dim dim(int axis) const { return shape()[axis < 0 ? axis + rank() : axis]; }
  std::string_view name() const;

  friend bool operator==(const Tensor& a, const Tensor& b) { return a.graph_ == b.graph_ && a.id_ == b.id_; }

 private:
  [[noreturn]] static void throw_unset();

  Graph* graph_ = nullptr;
  ValueId id_ = -1;
};

}  // namespace plimsoll
