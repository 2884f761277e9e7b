#include "lower/tiles.h"

namespace plimsoll::lower {
namespace {

static_assert(kTileElements % 4096 == 0, "tiles begin where a block of an update does");

// A larger variable is not cut: no line could stream it, and the refusal must not take a million tasks first.
constexpr int64_t kMostTiles = 4096;

bool works_on_tiles(const graph::Body& graph, const graph::Node& node) {
  return (node.op->traits.elementwise || node.op->traits.update_block > 0) && node.op->traits.updates != 0 &&
         graph.attrs(node).i("sparse") == 0 && graph.attrs(node).i("slices") == 0;
}

}  // namespace

std::vector<int32_t> count_tiles(const graph::Body& graph) {
  std::vector<int32_t> tiles(graph.variables().size(), 1);
  for (size_t i = 0; i < tiles.size(); ++i) {
    const graph::Variable& variable = graph.variables()[i];
    const TensorType& type = graph.value(variable.value).type;
    const int64_t elements = element_count(type.shape).count();
    const bool is_state = variable.role() == VariableRole::Optimiser || variable.role() == VariableRole::Gradient;
    if (is_state && elements > kTileElements && elements / kTileElements < kMostTiles)
      tiles[i] = static_cast<int32_t>((elements + kTileElements - 1) / kTileElements);
  }
  const auto elements_of = [&](ValueId value) { return element_count(graph.value(value).type.shape); };
  for (const graph::Node& node : graph.nodes()) {
    const bool is_whole = !works_on_tiles(graph, node);
    // Operands with one number for each block are small and stay whole.
    const bool is_block = node.op->traits.update_block > 0;
    for (const ValueId value : graph.inputs(node))
      if (graph.value(value).kind == graph::ValueKind::Variable &&
          (is_whole || (is_block && !(elements_of(value) == elements_of(graph.inputs(node)[0])))))
        tiles[static_cast<size_t>(graph.value(value).extra)] = 1;
  }
  return tiles;
}

}  // namespace plimsoll::lower
