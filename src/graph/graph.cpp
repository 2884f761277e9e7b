#include "graph/graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {

const TensorType& Tensor::type() const { return graph().value(id_).type; }
std::string_view Tensor::name() const { return graph().name(graph().value(id_)); }

void Tensor::throw_unset() {
  throw Error("a tensor is unset: it must come from a graph's placeholder, variable or constant, or from an operator");
}

namespace {

DType first_of(DTypes types) {
  return *std::find_if(std::begin(kEveryType), std::end(kEveryType), [&](DType type) { return types.has(type); });
}

// Refuses operands that no graph, or another one, knows.
void expect_operands(const Op& op, std::span<const Tensor> inputs, const Graph* graph) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_set())
      throw Error(fmt::format("{}: input {} is unset; give it a tensor of the graph", op.name, i));
    if (inputs[i].owner() != graph)
      throw Error(fmt::format("{}: input {} belongs to another graph; build all of a model in one graph", op.name, i));
  }
}

}  // namespace

void Infer::fail(const std::string& why) const { throw Error(fmt::format("{} '{}': {}", op, name, why)); }

void Infer::expect_inputs(size_t least, size_t most) const {
  if (in.size() >= least && in.size() <= most) return;
  const std::string count = least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
  fail(fmt::format("takes {} inputs but got {}", count, in.size()));
}

void Infer::expect_rank(size_t input, int rank) const {
  if (in[input].shape.rank() == rank) return;
  fail(fmt::format("input {} must have {} dimensions but is {}", input, rank, to_string(in[input])));
}

void Infer::expect_finite(std::string_view key, double otherwise) const {
  const double value = attrs.f(key, otherwise);
  if (!std::isfinite(value)) fail(fmt::format("{} must be a number but is {}", key, value));
}

void Infer::expect_positive(std::string_view key, double otherwise) const {
  const double value = attrs.f(key, otherwise);
  if (!(std::isfinite(value) && value > 0)) fail(fmt::format("{} must be positive but is {}", key, value));
}

void Infer::expect_between(std::string_view key, double least, double most, double otherwise) const {
  const double value = attrs.f(key, otherwise);
  if (!(value >= least && value <= most))
    fail(fmt::format("{} must be from {} to {} but is {}", key, least, most, value));
}

void Infer::expect_types(const InputTypes& types) const {
  for (size_t i = 0; i < in.size(); ++i) {
    const DTypes known = types.at(i);
    if (known.has(in[i].dtype)) continue;
    fail(fmt::format("input {} is {} but must be {}; cast it to {} first", i, to_string(in[i]), to_string(known),
                     name_of(first_of(known))));
  }
}

void Graph::expect_open() const {
  if (finalized_) throw Error("the graph is finalised and can't grow; build all of it before the session opens");
}

void Graph::finalize() {
  finalized_ = true;
  // Lists that grew by doubling give back what they did not need.
  nodes_.shrink_to_fit();
  values_.shrink_to_fit();
  inputs_.shrink_to_fit();
  variables_.shrink_to_fit();
  attrs_by_text_ = {};
  next_suffix_ = {};
}

int32_t Graph::claim_name(std::string full) {
  if (full.find_first_of(" \t\n=(),\"") != std::string::npos)
    throw Error(fmt::format("'{}' can't be a name: no blanks, quotes, commas, brackets or '='", full));
  names_.push_back(std::move(full));
  by_name_.emplace(names_.back(), -1);
  return static_cast<int32_t>(names_.size() - 1);
}

int32_t Graph::unique_name(std::string_view wanted) {
  std::string full = scopes_.back().prefix + std::string(wanted);
  if (!by_name_.contains(full)) return claim_name(std::move(full));
  int32_t& suffix = next_suffix_[full];
  std::string numbered;
  do numbered = fmt::format("{}_{}", full, ++suffix);
  while (by_name_.contains(numbered));
  return claim_name(std::move(numbered));
}

int32_t Graph::intern(const Attrs& attrs) {
  const auto [at, added] = attrs_by_text_.try_emplace(to_string(attrs), static_cast<int32_t>(attrs_.size()));
  if (added) attrs_.push_back(attrs);
  return at->second;
}

ValueId Graph::add_value(TensorType type, ValueKind kind, int32_t name) {
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back({type, -1, kind, name, -1});
  by_name_[names_[static_cast<size_t>(name)]] = id;
  return id;
}

Tensor Graph::placeholder(std::string_view name, DType dtype, const Shape& shape) {
  expect_open();
  std::string full = scopes_.back().prefix + std::string(name);
  if (by_name_.contains(full)) throw Error(fmt::format("placeholder '{}' exists already; give it another name", full));
  const ValueId id = add_value({dtype, shape}, ValueKind::Placeholder, claim_name(std::move(full)));
  placeholders_.push_back(id);
  return {*this, id};
}

Tensor Graph::variable(std::string_view name, DType dtype, const Shape& shape, const Init& init, VariableRole role) {
  expect_open();
  for (const Dim dim : shape) {
    if (dim.is_batch() || dim == Dim(0))
      throw Error(fmt::format("variable '{}' can't have shape {}: its sizes must be fixed and positive", name,
                              to_string(shape)));
  }
  std::string full = scopes_.back().prefix + std::string(name);
  if (const auto at = by_name_.find(full); at != by_name_.end()) {
    if (at->second < 0 || value(at->second).kind != ValueKind::Variable)
      throw Error(fmt::format("'{}' exists already and is not a variable; give one of them another name", full));
    const TensorType wanted{dtype, shape};
    const TensorType& type = value(at->second).type;
    if (!scopes_.back().reuse)
      throw Error(
          fmt::format("variable '{}' exists already as {}; open its scope with Scope::Mode::Reuse to share it, "
                      "or give the layer another name",
                      full, to_string(type)));
    if (!(type == wanted))
      throw Error(
          fmt::format("variable '{}' is {} and can't be reused as {}", full, to_string(type), to_string(wanted)));
    return {*this, at->second};
  }
  if (scopes_.back().reuse)
    throw Error(
        fmt::format("variable '{}' does not exist and can't be reused; make it in a scope without reuse first", full));
  if (!std::isfinite(init.a) || !std::isfinite(init.b) ||
      ((init.kind == Init::Kind::Normal || init.kind == Init::Kind::TruncatedNormal) && init.b < 0))
    throw Error(fmt::format("variable '{}' can't start as {}", full, to_string(init)));
  const ValueId id = add_value({dtype, shape}, ValueKind::Variable, claim_name(std::move(full)));
  values_.back().extra = static_cast<int32_t>(variables_.size());
  variables_.push_back({id, role, init});
  return {*this, id};
}

Tensor Graph::constant(DType dtype, const Shape& shape, std::span<const std::byte> bytes, std::string_view name) {
  expect_open();
  const int64_t want = element_count(shape).fixed() * size_of(dtype);
  if (static_cast<int64_t>(bytes.size()) != want)
    throw Error(
        fmt::format("constant {} needs {} bytes but got {}", to_string(TensorType{dtype, shape}), want, bytes.size()));
  const ValueId id =
      add_value({dtype, shape}, ValueKind::Constant, unique_name(name.empty() ? std::string_view("constant") : name));
  values_.back().extra = static_cast<int32_t>(constants_.size());
  constants_.push_back({id, {bytes.begin(), bytes.end()}});
  return {*this, id};
}

Tensor Graph::scalar(float number) {
  std::byte bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  return constant(DType::F32, {}, bytes, "scalar");
}

std::string Graph::layer_name(std::string_view kind) {
  const int32_t earlier = scopes_.back().layers[std::string(kind)]++;
  return earlier == 0 ? std::string(kind) : fmt::format("{}_{}", kind, earlier);
}

Outputs Graph::add(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs, std::string_view name) {
  expect_open();
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  expect_operands(op, inputs, this);
  for (const Tensor& input : inputs) types.push_back(input.type());
  const int32_t node_name = unique_name(name.empty() ? op.name : name);
  Infer infer{op.name, names_[static_cast<size_t>(node_name)], attrs, types, {}};
  infer.expect_types(op.types);
  op.infer(infer);

  const auto node = static_cast<NodeId>(nodes_.size());
  const auto first_output = static_cast<ValueId>(values_.size());
  nodes_.push_back({&op, intern(attrs), node_name, static_cast<int32_t>(inputs_.size()), first_output,
                    static_cast<int16_t>(inputs.size()), static_cast<int16_t>(infer.out.size()), adds_backward_});
  for (const Tensor& input : inputs) inputs_.push_back(input.id());
  for (size_t i = 0; i < infer.out.size(); ++i) {
    // The first output bears the node's name, the others name:1, name:2 ...
    const int32_t value_name =
        i == 0 ? node_name : claim_name(fmt::format("{}:{}", names_[static_cast<size_t>(node_name)], i));
    add_value(infer.out[i], ValueKind::Computed, value_name);
    values_.back().producer = node;
  }
  return {*this, node, first_output, static_cast<int>(infer.out.size())};
}

Outputs add_node(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs, std::string_view name) {
  if (inputs.empty()) throw Error(fmt::format("{}: has no input", op.name));
  expect_operands(op, inputs.subspan(0, 1), inputs[0].owner());
  return inputs[0].graph().add(op, inputs, attrs, name);
}

Tensor Graph::find(std::string_view name) {
  const auto at = by_name_.find(name);
  if (at != by_name_.end() && at->second >= 0) return {*this, at->second};
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

Bytes Graph::size_bytes() const {
  size_t bytes = nodes_.capacity() * sizeof(Node) + values_.capacity() * sizeof(Value) +
                 inputs_.capacity() * sizeof(ValueId) + variables_.capacity() * sizeof(Variable);
  for (const Constant& constant : constants_) bytes += sizeof constant + constant.bytes.size();
  // A short string is kept inline; by_name_ has one node of about 48 bytes for each.
  for (const std::string& name : names_) bytes += sizeof(std::string) + (name.size() > 15 ? name.size() + 17 : 0) + 56;
  return static_cast<Bytes>(bytes);
}

Scope::Scope(Graph& graph, std::string_view name, Mode mode) : graph_(graph) {
  const bool outer_reuse = graph.scopes_.back().reuse;
  std::string prefix = graph.scopes_.back().prefix;
  if (!name.empty()) prefix += std::string(name) + "/";
  graph.scopes_.push_back({std::move(prefix), outer_reuse || mode == Mode::Reuse});
}

Scope::~Scope() { graph_.scopes_.pop_back(); }

}  // namespace plimsoll
