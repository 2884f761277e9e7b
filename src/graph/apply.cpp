#include "graph/apply.h"

#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/body.h"

namespace plimsoll::graph {
namespace {

void expect_one_owner(const Op& op, std::span<const Tensor> inputs) {
  if (inputs.empty()) throw Error(fmt::format("{}: has no input", op.name));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_set())
      throw Error(fmt::format("{}: input {} is unset; give it a tensor of the graph", op.name, i));
    if (inputs[i].owner() != inputs[0].owner())
      throw Error(fmt::format("{}: input {} belongs to another graph; build all of a model in one graph", op.name, i));
  }
}

Outputs add_to_graph(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs, std::string_view name) {
  Graph& graph = inputs[0].graph();
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const Tensor& input : inputs) ids.push_back(input.id());
  const NodeId id = graph.body().add_node(op, ids, attrs, name);
  const Node& node = graph.body().node(id);
  return {graph, id, node.first_output, node.outputs};
}

}  // namespace

Outputs apply(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs, std::string_view name) {
  expect_one_owner(op, inputs);
  return add_to_graph(op, inputs, attrs, name);
}

}  // namespace plimsoll::graph
