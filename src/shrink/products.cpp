#include "shrink/products.h"

namespace plimsoll::shrink {

std::optional<ValueId> weight_of(const graph::Body& graph, const graph::Node& node) {
  if (node.op->name != "matmul") return std::nullopt;
  const graph::Attrs& attrs = graph.attrs(node);
  const ValueId weight = graph.inputs(node)[1];
  const graph::Value& value = graph.value(weight);
  const bool is_plain = attrs.i("transpose_a") == 0 && attrs.i("transpose_b") == 0;
  if (!is_plain || value.kind != graph::ValueKind::Variable || value.type.shape.rank() != 2 ||
      graph.variable_of(weight).role() != VariableRole::Weight)
    return std::nullopt;
  return weight;
}

std::string layer_of(std::string_view weight, std::string_view scope) {
  if (weight.starts_with(scope)) weight.remove_prefix(scope.size());
  return std::string(weight.substr(0, weight.find_last_of('/')));
}

}  // namespace plimsoll::shrink
