// What a graph is made of: values and the nodes that make them, in program order. Every later stage reads it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <plimsoll/graph.h>
#include "graph/attrs.h"
#include "graph/names.h"
#include "graph/op.h"

namespace plimsoll::graph {

class Capturer;
class Recorder;

enum class ValueKind : uint8_t { Computed, Placeholder, Variable, Constant };

struct Value {
  TensorType type;
  NodeId producer = -1;  // -1 unless Computed
  ValueKind kind = ValueKind::Computed;
  int32_t name = -1;   // into the graph's names; a variable's is in the store
  int32_t extra = -1;  // into variables or constants
};

// A variable that the graph uses; what is known of it is in the store.
struct Variable {
  ValueId value;
  const StoredVariable* stored;
  VariableRole role() const { return stored->role; }
  const Init& init() const { return stored->init; }
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

class Body {
 public:
  Body(Graph& front, std::shared_ptr<VariableStore> store);
  ~Body() {
    lives_->store(false);
    *address_ = nullptr;
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  Graph& front() const { return front_; }                            // the graph that users hold
  std::shared_ptr<Body* const> address() const { return address_; }  // of this; to null when it is gone
  // True until the graph is destroyed: for holders of a reference who may outlive it.
  std::shared_ptr<const std::atomic<bool>> lifetime() const { return lives_; }

  ValueId add_placeholder(std::string_view name, const TensorType& type);
  ValueId add_variable(std::string_view name, const TensorType& type, const Init& init, VariableRole role);
  ValueId enter_variable(const StoredVariable& stored);  // by its full name, whatever scope is open
  ValueId add_constant(const TensorType& type, std::span<const std::byte> bytes, std::string_view name);
  // Infers the types of the outputs. The name defaults to the operator's and is made unique in the scope.
  NodeId add_node(const Op& op, std::span<const ValueId> inputs, const Attrs& attrs, std::string_view name);

  // Makes this graph the recording of eager code: nodes get no names of their own, and a variable may be added twice.
  void record_for(Recorder* recorder) { recorder_ = recorder; }
  Recorder* recorder() const { return recorder_; }
  // Allows eager tensors as inputs of this graph's nodes: `capturer` takes them into the graph.
  void capture_with(Capturer* capturer) { capturer_ = capturer; }
  Capturer* capturer() const { return capturer_; }
  // Removes all nodes and values; the next ones are numbered from 0 again.
  void forget();
  void add_composing(int more) { composing_ += more; }
  bool is_composing() const { return composing_ > 0; }

  // Called instead of adding a node when there are `most`: it throws.
  void limit_nodes(size_t most, std::function<void()> refuse) {
    most_nodes_ = most;
    refuse_more_ = std::move(refuse);
  }

  std::string layer_name(std::string_view kind);
  void allow_split(std::string_view op) { split_.emplace_back(op); }
  bool may_split(std::string_view op) const { return std::find(split_.begin(), split_.end(), op) != split_.end(); }
  // Nodes added from now on belong to the backward pass, or no longer do; returns what was before.
  bool set_backward(bool backward) { return std::exchange(adds_backward_, backward); }
  // Updates added from now on happen only in steps where this value, f32[], is not 0 (-1: always); returns what was
  // before. The guard is the last input of their nodes, which have a setting `guarded`; shape rules and kernels do not
  // see it.
  ValueId set_guard(ValueId guard) { return std::exchange(guard_, guard); }
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
  std::string_view name(const Value& value) const {
    if (value.kind != ValueKind::Variable && value.name < 0) return "value";  // of a recording
    return value.kind == ValueKind::Variable
               ? std::string_view(variables_[static_cast<size_t>(value.extra)].stored->name)
               : std::string_view(names_[static_cast<size_t>(value.name)]);
  }
  // The value of that full name; throws Error that names the nearest ones.
  ValueId find(std::string_view name) const;
  bool has_value(std::string_view name) const {  // not a node
    const auto at = by_name_.find(name);
    return at != by_name_.end() && at->second >= 0;
  }
  const std::shared_ptr<VariableStore>& store() const { return store_; }

  Bytes size_bytes() const;

 private:
  void expect_open() const;
  NodeId add_whole_node(const Op& op, std::span<const ValueId> inputs, const Attrs& attrs, std::string_view name);
  int32_t unique_name(std::string_view wanted);
  int32_t claim_name(std::string full);
  int32_t intern(const Attrs& attrs);
  int32_t name_of_operator(const Op& op);
  ValueId add_value(const TensorType& type, ValueKind kind, int32_t name);

  Graph& front_;
  const std::shared_ptr<VariableStore> store_;
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
  std::unordered_map<const Op*, int32_t> operator_names_;  // of a recording
  LayerCounts layers_;  // named outside of all scopes, where each graph counts for itself
  std::vector<std::string> split_;
  bool finalized_ = false;
  bool adds_backward_ = false;
  ValueId guard_ = -1;
  size_t most_nodes_ = std::numeric_limits<size_t>::max();
  std::function<void()> refuse_more_;
  Recorder* recorder_ = nullptr;
  Capturer* capturer_ = nullptr;
  int composing_ = 0;
  const std::shared_ptr<Body*> address_ = std::make_shared<Body*>(this);
  std::shared_ptr<std::atomic<bool>> lives_ = std::make_shared<std::atomic<bool>>(true);
};

}  // namespace plimsoll::graph
