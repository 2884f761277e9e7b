// Values and the nodes that make them, in program order. Built once, finalised, then read by every later stage.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/attrs.h"
#include "graph/init.h"
#include "graph/op.h"
#include "graph/tensor.h"

namespace plimsoll {

enum class ValueKind : uint8_t { Computed, Placeholder, Variable, Constant };

// Who a variable belongs to; decides its tag in the report and whether training changes it.
enum class VariableRole : uint8_t {
  Weight,     // trained
  Statistic,  // kept by a layer, not trained (running mean ...)
  Optimiser,  // kept by the optimiser for a weight
};

struct Value {
  TensorType type;
  NodeId producer = -1;  // -1 unless Computed
  ValueKind kind = ValueKind::Computed;
  int32_t name = -1;   // into the graph's names
  int32_t extra = -1;  // into variables or constants
};

struct Variable {
  ValueId value;
  VariableRole role;
  Init init;
};

struct Constant {
  ValueId value;
  std::vector<std::byte> bytes;  // row-major
};

struct Node {
  const Op* op;
  int32_t attrs;         // into the graph's table of distinct settings
  int32_t name;          // into the graph's names
  int32_t first_input;   // into the graph's list of inputs
  int32_t first_output;  // outputs are consecutive values
  int16_t inputs;
  int16_t outputs;
  bool is_backward = false;  // made by differentiation: what it reads of the forward pass had to be kept until then
};

// What a node made: its outputs are consecutive values. Stands for the first one where one is expected.
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

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = delete;
  ~Graph() { lives_->store(false); }
  // True until the graph is destroyed: for holders of a reference who may outlive it.
  std::shared_ptr<const std::atomic<bool>> lifetime() const { return lives_; }

  Tensor placeholder(std::string_view name, DType dtype, const Shape& shape);
  // In a scope opened for reuse this returns the variable of that name; elsewhere a second one is an error.
  Tensor variable(std::string_view name, DType dtype, const Shape& shape, const Init& init,
                  VariableRole role = VariableRole::Weight);
  Tensor constant(DType dtype, const Shape& shape, std::span<const std::byte> bytes, std::string_view name = "");
  Tensor scalar(float number);
  // A name for the next layer of that kind in the innermost scope: dense, dense_1, dense_2 ... Counting starts again
  // each time a scope is opened, so that building a model again in a scope for reuse finds the same variables.
  std::string layer_name(std::string_view kind);
  // Adds a node; names default to the operator's, made unique in the scope.
  Outputs add(const Op& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {}, std::string_view name = "") {
    return add(op, std::span<const Tensor>(inputs.begin(), inputs.size()), attrs, name);
  }
  Outputs add(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs = {}, std::string_view name = "");

  // Operators of that name, added from now on, may take each part of a batch for a batch of its own.
  void allow_split(std::string_view op) { split_.emplace_back(op); }
  bool may_split(std::string_view op) const { return std::find(split_.begin(), split_.end(), op) != split_.end(); }
  // Nodes added from now on belong to the backward pass, or no longer do; returns what was before.
  bool set_backward(bool backward) { return std::exchange(adds_backward_, backward); }

  // After this the graph can't grow: further calls throw Error.
  void finalize();
  bool is_finalized() const { return finalized_; }

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Value> values() const { return values_; }
  std::span<const Variable> variables() const { return variables_; }
  std::span<const Constant> constants() const { return constants_; }
  std::span<const ValueId> placeholders() const { return placeholders_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  const Variable& variable_of(ValueId id) const { return variables_[static_cast<size_t>(value(id).extra)]; }
  const Constant& constant_of(ValueId id) const { return constants_[static_cast<size_t>(value(id).extra)]; }
  std::span<const ValueId> inputs(const Node& node) const {
    return {inputs_.data() + node.first_input, static_cast<size_t>(node.inputs)};
  }
  const Attrs& attrs(const Node& node) const { return attrs_[static_cast<size_t>(node.attrs)]; }
  std::string_view name(const Node& node) const { return names_[static_cast<size_t>(node.name)]; }
  std::string_view name(const Value& value) const { return names_[static_cast<size_t>(value.name)]; }
  // The value of that full name; throws Error that names the nearest ones.
  Tensor find(std::string_view name);
  bool has(std::string_view name) const { return by_name_.contains(name); }
  bool has_value(std::string_view name) const {  // not a node
    const auto at = by_name_.find(name);
    return at != by_name_.end() && at->second >= 0;
  }

  // Resident bytes of the graph itself, for the report.
  Bytes size_bytes() const;

 private:
  friend class Scope;
  struct OpenScope {
    std::string prefix;  // "block1/"
    bool reuse;
    std::unordered_map<std::string, int32_t> layers = {};  // how many of each kind this opening has named
  };
  void expect_open() const;
  int32_t unique_name(std::string_view wanted);
  int32_t claim_name(std::string full);
  int32_t intern(const Attrs& attrs);
  ValueId add_value(TensorType type, ValueKind kind, int32_t name);

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<ValueId> inputs_;
  std::vector<Variable> variables_;
  std::vector<Constant> constants_;
  std::vector<ValueId> placeholders_;
  std::deque<Attrs> attrs_;
  std::unordered_map<std::string, int32_t> attrs_by_text_;
  std::deque<std::string> names_;                          // a deque: views into it stay valid
  std::unordered_map<std::string_view, ValueId> by_name_;  // -1: a node's name
  std::unordered_map<std::string, int32_t> next_suffix_;
  std::vector<OpenScope> scopes_{OpenScope{"", false}};  // the first is that of the graph itself
  std::vector<std::string> split_;
  bool finalized_ = false;
  bool adds_backward_ = false;
  std::shared_ptr<std::atomic<bool>> lives_ = std::make_shared<std::atomic<bool>>(true);
};

// Adds a node to the graph of its inputs. Operator functions add theirs so: an input that is unset or belongs to
// another graph is refused by the operator's name.
Outputs add_node(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs = {}, std::string_view name = "");
inline Outputs add_node(const Op& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {},
                        std::string_view name = "") {
  return add_node(op, std::span<const Tensor>(inputs.begin(), inputs.size()), attrs, name);
}

// Names made while this lives start with "name/". A scope may be opened again: with reuse, its variables are shared.
class Scope {
 public:
  enum class Mode { Inherit, Reuse };
  Scope(Graph& graph, std::string_view name, Mode mode = Mode::Inherit);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph& graph_;
};

std::string to_string(const Graph& graph);
// Reads what to_string wrote into an empty graph; `find_op` gives the operator of a name or null. Throws Error with the
// line.
void parse_graph(std::string_view text, const Op* (*find_op)(std::string_view), Graph& into);

}  // namespace plimsoll
