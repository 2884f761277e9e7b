#include "lower/frozen.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "ops/unpack.h"

namespace plimsoll::lower {
namespace {

constexpr int64_t kLeastWeights = 16384;  // fewer are not worth the tasks that unpack them

class FrozenPacking {
 public:
  FrozenPacking(Draft& draft, DType dtype) : draft_(draft), dtype_(dtype) {
    const graph::Body& graph = *draft.graph;
    const std::vector<bool> is_updated = find_updated(graph);
    for (size_t i = 0; i < graph.variables().size(); ++i)
      if (const auto form = packed_form(graph, i, is_updated[i], dtype))
        draft_.packed.emplace(graph.variables()[i].value, PackedVariable{ops::packed_type(*form), *form});
  }

  void run() {
    std::vector<DraftNode> nodes = std::move(draft_.nodes);
    draft_.nodes.clear();
    for (DraftNode& node : nodes) {
      for (size_t i = 0; i < node.in.size(); ++i)
        if (draft_.packed.contains(node.in[i])) read(node, i);
      draft_.nodes.push_back(std::move(node));
    }
    for (ValueId& value : draft_.fetches) {
      if (!draft_.packed.contains(value)) continue;
      if (draft_.nodes.empty())
        throw Error(fmt::format("'{}' is kept in {} and can't be fetched alone; read it with Session::get",
                                draft_.name(value), name_of(dtype_)));
      value = unpacked(value, draft_.nodes.back().origin, false);
    }
  }

 private:
  Dims dims_of(ValueId variable) const { return at_batch(draft_.graph->value(variable).type.shape, 1); }

  void read(DraftNode& node, size_t input) {
    const ValueId variable = node.in[input];
    if (!ops::reads_packed(*node.op, *node.attrs, input)) {
      node.in[input] = unpacked(variable, node.origin, draft_.is_backward(node));
      return;
    }
    graph::Attrs attrs = *node.attrs;
    ops::set_packed(attrs, dtype_, dims_of(variable));
    node.attrs = draft_.keep(std::move(attrs));
  }

  ValueId unpacked(ValueId variable, NodeId reader, bool backward) {
    const auto [made, is_first] = unpacked_.try_emplace(variable, std::array<ValueId, 2>{-1, -1});
    ValueId& value = made->second[backward ? 1 : 0];
    if (value >= 0) return value;
    static const graph::Op* const kUnpack = ops::find_op("unpack");
    value = draft_.add_value(draft_.graph->value(variable).type,
                             draft_.name(variable) + (backward ? "/unpacked_again" : "/unpacked"));
    graph::Attrs attrs;
    ops::set_packed(attrs, dtype_, dims_of(variable));
    draft_.nodes.push_back({kUnpack, draft_.keep(std::move(attrs)), reader, {variable}, {value}});
    return value;
  }

  Draft& draft_;
  const DType dtype_;
  std::unordered_map<ValueId, std::array<ValueId, 2>> unpacked_;  // forward, backward
};

}  // namespace

std::vector<bool> find_updated(const graph::Body& graph) {
  std::vector<bool> is_updated(graph.variables().size(), false);
  for (const graph::Node& node : graph.nodes()) {
    if (node.op->traits.updates == 0) continue;
    const std::span<const ValueId> inputs = graph.inputs(node);
    for (size_t i = 0; i < inputs.size(); ++i)
      if ((node.op->traits.updates >> i & 1) != 0) is_updated[static_cast<size_t>(graph.value(inputs[i]).extra)] = true;
  }
  return is_updated;
}

std::optional<kernels::PackedWeights> packed_form(const graph::Body& graph, size_t variable, bool is_updated,
                                                  DType dtype) {
  if (dtype == DType::F32 || is_updated) return std::nullopt;
  const graph::Variable& about = graph.variables()[variable];
  const TensorType& type = graph.value(about.value).type;
  const bool is_worth_it = about.role() == VariableRole::Weight && type.dtype == DType::F32 && type.shape.rank() >= 2 &&
                           element_count(type.shape).count() >= kLeastWeights;
  if (!is_worth_it) return std::nullopt;
  return kernels::PackedWeights(dtype, at_batch(type.shape, 1));
}

void pack_frozen(Draft& draft, DType dtype) {
  if (dtype != DType::F32) FrozenPacking(draft, dtype).run();
}

}  // namespace plimsoll::lower
