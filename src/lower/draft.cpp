#include "lower/draft.h"

#include <numeric>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::lower {

std::string Draft::name(ValueId value) const {
  return is_own(value) ? own(value).name : std::string(graph->name(graph->value(value)));
}

std::string Draft::name(const DraftNode& node) const {
  if (!node.out.empty() && is_own(node.out[0])) return own(node.out[0]).name;
  return std::string(graph->name(graph->node(node.origin)));
}

BatchRule Draft::batch_rule(const DraftNode& node) const {
  if (node.op->batch_rule == nullptr) return node.op->traits.batch;
  std::vector<TensorType> types;
  for (const ValueId value : node.in) types.push_back(type(value));
  return node.op->batch_rule(*node.attrs, types);
}

ValueId Draft::add_value(const TensorType& type, std::string name) {
  own_values.push_back({type, std::move(name)});
  return static_cast<ValueId>(value_count()) - 1;
}

Draft make_draft(const graph::Body& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates) {
  std::vector<bool> needed(graph.nodes().size(), false);
  const auto need = [&](ValueId value) {
    if (const NodeId producer = graph.value(value).producer; producer >= 0)
      needed[static_cast<size_t>(producer)] = true;
  };
  for (const ValueId fetch : fetches) need(fetch);
  for (const NodeId update : updates) {
    if (update < 0 || static_cast<size_t>(update) >= needed.size() || graph.node(update).op->traits.updates == 0)
      throw Error(fmt::format("{} is no update of the graph: give the nodes that minimize returned", update));
    needed[static_cast<size_t>(update)] = true;
  }
  for (auto id = static_cast<NodeId>(graph.nodes().size()) - 1; id >= 0; --id)
    if (needed[static_cast<size_t>(id)])
      for (const ValueId input : graph.inputs(graph.node(id))) need(input);

  Draft draft;
  draft.graph = &graph;
  draft.fetches.assign(fetches.begin(), fetches.end());
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    const graph::Node& node = graph.node(id);
    const auto inputs = graph.inputs(node);
    DraftNode& drafted = draft.nodes.emplace_back(DraftNode{node.op, &graph.attrs(node), id, {}, {}});
    drafted.in.assign(inputs.begin(), inputs.end());
    for (int i = 0; i < node.outputs; ++i) drafted.out.push_back(node.first_output + i);
  }
  return draft;
}

std::vector<ValueId> find_roots(const Draft& draft) {
  std::vector<ValueId> roots(draft.value_count());
  std::iota(roots.begin(), roots.end(), 0);
  for (const DraftNode& node : draft.nodes)
    if (node.op->traits.view) roots[static_cast<size_t>(node.out[0])] = roots[static_cast<size_t>(node.in[0])];
  return roots;
}

Uses::Uses(const Draft& draft) : counts_(draft.value_count(), 0), producers_(draft.value_count(), -1) {
  for (size_t i = 0; i < draft.nodes.size(); ++i) {
    for (const ValueId value : draft.nodes[i].in) ++counts_[static_cast<size_t>(value)];
    for (const ValueId value : draft.nodes[i].out) producers_[static_cast<size_t>(value)] = static_cast<int>(i);
  }
  for (const ValueId value : draft.fetches) ++counts_[static_cast<size_t>(value)];
}

void remove_dead(Draft& draft) {
  std::erase_if(draft.nodes, [](const DraftNode& node) { return node.op == nullptr; });
}

}  // namespace plimsoll::lower
