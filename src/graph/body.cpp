#include "graph/body.h"

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/countable.h"
#include "graph/draws.h"
#include "graph/recorder.h"

namespace plimsoll::graph {

Body::Body(Graph& front, std::shared_ptr<VariableStore> store) : front_(front), store_(std::move(store)) {
  if (store_ == nullptr) throw Error("a graph needs a store of variables; leave it out to get one of its own");
}

void Body::expect_open() const {
  if (finalized_) throw Error("the graph is finalised and can't grow; build all of it before the session opens");
}

void Body::finalize() {
  finalized_ = true;
  // Lists that grew by doubling give back what they did not need.
  nodes_.shrink_to_fit();
  values_.shrink_to_fit();
  inputs_.shrink_to_fit();
  variables_.shrink_to_fit();
  attrs_by_text_ = {};
  next_suffix_ = {};
}

void Body::forget() {
  nodes_.clear();
  values_.clear();
  inputs_.clear();
  variables_.clear();
  constants_.clear();
  placeholders_.clear();
  attrs_.clear();
  names_.clear();
  by_name_.clear();
  operator_names_.clear();
  guard_ = -1;
}

// In a recording all nodes of an operator share its name: recordings are made anew in each step, and making unique
// names would take longer than all else.
int32_t Body::name_of_operator(const Op& op) {
  const auto [at, added] = operator_names_.try_emplace(&op, static_cast<int32_t>(names_.size()));
  if (added) names_.emplace_back(op.name);
  return at->second;
}

int32_t Body::claim_name(std::string full) {
  expect_name(full);
  names_.push_back(std::move(full));
  by_name_.emplace(names_.back(), -1);
  return static_cast<int32_t>(names_.size() - 1);
}

int32_t Body::unique_name(std::string_view wanted) {
  std::string full = store_->full_name(wanted);
  if (!by_name_.contains(full)) return claim_name(std::move(full));
  int32_t& suffix = next_suffix_[full];
  std::string numbered;
  do numbered = fmt::format("{}_{}", full, ++suffix);
  while (by_name_.contains(numbered));
  return claim_name(std::move(numbered));
}

int32_t Body::intern(const Attrs& attrs) {
  if (recorder_ != nullptr) {  // the first entry serves all nodes without settings
    if (attrs_.empty()) attrs_.emplace_back();
    if (attrs.empty()) return 0;
    attrs_.push_back(attrs);
    return static_cast<int32_t>(attrs_.size()) - 1;
  }
  const auto [at, added] = attrs_by_text_.try_emplace(to_string(attrs), static_cast<int32_t>(attrs_.size()));
  if (added) attrs_.push_back(attrs);
  return at->second;
}

ValueId Body::add_value(const TensorType& type, ValueKind kind, int32_t name) {
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back({type, -1, kind, name, -1});
  if (name >= 0) by_name_[names_[static_cast<size_t>(name)]] = id;
  return id;
}

ValueId Body::add_placeholder(std::string_view name, const TensorType& type) {
  expect_open();
  expect_countable(type.shape);
  if (recorder_ != nullptr) {
    placeholders_.push_back(add_value(type, ValueKind::Placeholder, -1));
    return placeholders_.back();
  }
  std::string full = store_->full_name(name);
  if (by_name_.contains(full)) throw Error(fmt::format("placeholder '{}' exists already; give it another name", full));
  const ValueId id = add_value(type, ValueKind::Placeholder, claim_name(std::move(full)));
  placeholders_.push_back(id);
  return id;
}

ValueId Body::add_variable(std::string_view name, const TensorType& type, const Init& init, VariableRole role) {
  expect_open();
  const std::string full = store_->full_name(name);
  const auto at = by_name_.find(full);
  const bool is_here = at != by_name_.end();
  if (is_here && (at->second < 0 || value(at->second).kind != ValueKind::Variable))
    throw Error(fmt::format("'{}' exists already and is not a variable; give one of them another name", full));
  if (is_here && !store_->is_reusing() && recorder_ == nullptr)
    throw Error(
        fmt::format("variable '{}' exists already as {}; open its scope with Scope::Mode::Reuse to share it, "
                    "or give the layer another name",
                    full, to_string(value(at->second).type)));
  const StoredVariable& stored = store_->declare(name, type, init, role);
  return is_here ? at->second : enter_variable(stored);
}

ValueId Body::enter_variable(const StoredVariable& stored) {
  expect_open();
  const auto [at, added] = by_name_.try_emplace(stored.name, static_cast<ValueId>(values_.size()));
  if (!added) return at->second;
  const ValueId id = add_value(stored.type, ValueKind::Variable, -1);
  values_.back().extra = static_cast<int32_t>(variables_.size());
  variables_.push_back({id, &stored});
  return id;
}

ValueId Body::add_constant(const TensorType& type, std::span<const std::byte> bytes, std::string_view name) {
  expect_open();
  const int64_t want = element_count(type.shape).fixed() * size_of(type.dtype);
  if (static_cast<int64_t>(bytes.size()) != want)
    throw Error(fmt::format("constant {} needs {} bytes but got {}", to_string(type), want, bytes.size()));
  const ValueId id =
      add_value(type, ValueKind::Constant,
                recorder_ != nullptr ? -1 : unique_name(name.empty() ? std::string_view("constant") : name));
  values_.back().extra = static_cast<int32_t>(constants_.size());
  constants_.push_back({id, {bytes.begin(), bytes.end()}});
  return id;
}

std::string Body::layer_name(std::string_view kind) {
  // Outside of all scopes each graph numbers its own layers; eager code numbers on through all of its recordings.
  return store_->is_in_scope() ? store_->layer_name(kind) : next_layer_name(layers_, kind);
}

NodeId Body::add_node(const Op& op, std::span<const ValueId> inputs, const Attrs& attrs, std::string_view name) {
  if (recorder_ != nullptr && attrs.has("key") && attrs.i("key") == kNextDraw) {
    Attrs drawn = attrs;
    drawn.set("key", recorder_->next_draw());
    return add_node(op, inputs, drawn, name);
  }
  if (guard_ < 0 || op.traits.updates == 0) return add_whole_node(op, inputs, attrs, name);
  std::vector<ValueId> guarded(inputs.begin(), inputs.end());
  guarded.push_back(guard_);
  Attrs settings = attrs;
  settings.set("guarded", int64_t{1});
  return add_whole_node(op, guarded, settings, name);
}

NodeId Body::add_whole_node(const Op& op, std::span<const ValueId> inputs, const Attrs& attrs, std::string_view name) {
  expect_open();
  if (nodes_.size() >= most_nodes_) refuse_more_();
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const ValueId input : inputs) types.push_back(value(input).type);
  const int32_t node_name = recorder_ != nullptr ? name_of_operator(op) : unique_name(name.empty() ? op.name : name);
  if (attrs.i("guarded") != 0) {
    if (types.empty() || !(types.back() == TensorType{DType::F32, {}}))
      throw Error(fmt::format("{} '{}': the guard of an update must be f32[]", op.name,
                              names_[static_cast<size_t>(node_name)]));
    types.pop_back();
  }
  Infer infer{op.name, names_[static_cast<size_t>(node_name)], attrs, types, {}};
  infer.expect_types(op.types);
  op.infer(infer);
  for (const TensorType& type : infer.out) expect_countable(type.shape);

  const auto node = static_cast<NodeId>(nodes_.size());
  const auto first_output = static_cast<ValueId>(values_.size());
  nodes_.push_back({&op, intern(attrs), node_name, static_cast<int32_t>(inputs_.size()), first_output,
                    static_cast<int16_t>(inputs.size()), static_cast<int16_t>(infer.out.size()), adds_backward_});
  inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
  for (size_t i = 0; i < infer.out.size(); ++i) {
    // The first output bears the node's name, the others name:1, name:2 ...
    const int32_t value_name = i == 0 || recorder_ != nullptr
                                   ? node_name
                                   : claim_name(fmt::format("{}:{}", names_[static_cast<size_t>(node_name)], i));
    if (recorder_ != nullptr)
      values_.push_back({infer.out[i], node, ValueKind::Computed, value_name, -1});
    else
      add_value(infer.out[i], ValueKind::Computed, value_name);
    values_.back().producer = node;
  }
  return node;
}

ValueId Body::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at != by_name_.end() && at->second >= 0) return at->second;
  std::string near;
  int shown = 0;
  const std::string_view tail = name.substr(name.find_last_of('/') + 1);
  for (const Value& value : values_) {
    const std::string_view other = this->name(value);
    if (shown < 5 && other.find(tail) != std::string_view::npos)
      near += (shown++ ? ", " : "; near it: ") + std::string(other);
  }
  throw Error(fmt::format("the graph has no value '{}'{}", name, near));
}

Bytes Body::size_bytes() const {
  size_t bytes = nodes_.capacity() * sizeof(Node) + values_.capacity() * sizeof(Value) +
                 inputs_.capacity() * sizeof(ValueId) + variables_.capacity() * sizeof(Variable);
  for (const Constant& constant : constants_) bytes += sizeof constant + constant.bytes.size();
  // A short string is kept inline; by_name_ has one node of about 48 bytes for each.
  const auto name_bytes = [](const std::string& name) {
    return sizeof(std::string) + (name.size() > 15 ? name.size() + 17 : 0) + 56;
  };
  for (const std::string& name : names_) bytes += name_bytes(name);
  for (const Variable& variable : variables_) bytes += sizeof(StoredVariable) + name_bytes(variable.stored->name);
  return static_cast<Bytes>(bytes);
}

}  // namespace plimsoll::graph
