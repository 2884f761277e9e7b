#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include "graph/body.h"

namespace plimsoll {

Graph::Graph() : Graph(std::make_shared<VariableStore>()) {}
Graph::Graph(std::shared_ptr<VariableStore> store) : body_(std::make_unique<graph::Body>(*this, std::move(store))) {}
Graph::~Graph() = default;

Tensor Graph::placeholder(std::string_view name, DType dtype, const Shape& shape) {
  return {*this, body_->add_placeholder(name, {dtype, shape})};
}

Tensor Graph::variable(std::string_view name, DType dtype, const Shape& shape, const Init& init, VariableRole role) {
  return {*this, body_->add_variable(name, {dtype, shape}, init, role)};
}

namespace {

const StoredVariable& stored_of(const graph::Body& body, Tensor variable, std::string_view function) {
  if (!variable.is_set() || body.value(variable.id()).kind != graph::ValueKind::Variable)
    throw Error(fmt::format("{}: '{}' is no variable", function, variable.is_set() ? variable.name() : "unset"));
  return *body.variable_of(variable.id()).stored;
}

void expect_sizes(std::string_view function, std::string_view what, double number) {
  if (!(std::isfinite(number) && number >= 0))
    throw Error(fmt::format("{}: {} must be zero or more but is {}", function, what, number), ErrorKind::Usage);
}

}  // namespace

void Graph::regularise(Tensor variable, const Regulariser& regulariser) {
  const StoredVariable& stored = stored_of(*body_, variable, "regularise");
  expect_sizes("regularise", "l1", regulariser.l1);
  expect_sizes("regularise", "l2", regulariser.l2);
  if (stored.regulariser != regulariser) store()->set_treatment(stored.name, regulariser, stored.constraint);
}

void Graph::constrain(Tensor variable, const Constraint& constraint) {
  const StoredVariable& stored = stored_of(*body_, variable, "constrain");
  expect_sizes("constrain", "the least norm", constraint.least);
  expect_sizes("constrain", "the largest norm", constraint.most);
  if (constraint.least > constraint.most || !(constraint.rate >= 0 && constraint.rate <= 1))
    throw Error(fmt::format("constrain: norms from {} to {} at a rate of {} make no sense", constraint.least,
                            constraint.most, constraint.rate),
                ErrorKind::Usage);
  if (constraint.axis >= variable.rank())
    throw Error(fmt::format("constrain: {} has no axis {}", to_string(variable.type()), constraint.axis),
                ErrorKind::Usage);
  if (stored.constraint != constraint) store()->set_treatment(stored.name, stored.regulariser, constraint);
}

Tensor Graph::constant(DType dtype, const Shape& shape, std::span<const std::byte> bytes, std::string_view name) {
  return {*this, body_->add_constant({dtype, shape}, bytes, name)};
}

Tensor Graph::scalar(float number) {
  std::byte bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  return constant(DType::F32, {}, bytes, "scalar");
}

std::string Graph::layer_name(std::string_view kind) { return body_->layer_name(kind); }
void Graph::allow_split(std::string_view op) { body_->allow_split(op); }
void Graph::finalize() { body_->finalize(); }
bool Graph::is_finalized() const { return body_->is_finalized(); }
Tensor Graph::find(std::string_view name) { return {*this, body_->find(name)}; }
bool Graph::has_value(std::string_view name) const { return body_->has_value(name); }
const std::shared_ptr<VariableStore>& Graph::store() const { return body_->store(); }
Bytes Graph::size_bytes() const { return body_->size_bytes(); }

}  // namespace plimsoll
