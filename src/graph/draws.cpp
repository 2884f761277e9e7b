#include "graph/draws.h"

#include <algorithm>

#include "base/random.h"

namespace plimsoll::graph {

int64_t free_key(const Body& graph, const Op& op, uint64_t wanted, NodeId first) {
  if (graph.recorder() != nullptr) return kNextDraw;
  const auto nodes = graph.nodes().subspan(static_cast<size_t>(first));
  const auto is_taken = [&](uint64_t key) {
    return std::ranges::any_of(nodes, [&](const Node& node) {
      return node.op == &op && graph.attrs(node).i("key") == static_cast<int64_t>(key);
    });
  };
  while (is_taken(wanted)) wanted = mix_bits(wanted);
  return static_cast<int64_t>(wanted);
}

}  // namespace plimsoll::graph
