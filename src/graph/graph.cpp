#include <cstring>

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
