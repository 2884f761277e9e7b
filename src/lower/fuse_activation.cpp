#include <string_view>

#include "lower/fuse.h"

namespace plimsoll::lower {
namespace {

std::string_view activation_of(const DraftNode& node) {
  return node.op->fusion.activation == nullptr ? std::string_view() : node.op->fusion.activation(*node.attrs);
}

bool may_apply_one(const DraftNode& node) {
  return node.op->fusion.applies_activation && !node.attrs->has("activation");
}

}  // namespace

void fuse_activation(Draft& draft) {
  const Uses uses(draft);
  for (DraftNode& node : draft.nodes) {
    const std::string_view activation = activation_of(node);
    if (activation.empty()) continue;
    const int at = uses.producer(node.in[0]);
    if (at < 0 || uses.count(node.in[0]) != 1) continue;
    DraftNode& host = draft.nodes[static_cast<size_t>(at)];
    if (host.op == nullptr || !may_apply_one(host) || host.out[0] != node.in[0]) continue;
    graph::Attrs attrs = *host.attrs;
    attrs.set("activation", std::string(activation));
    host.attrs = draft.keep(std::move(attrs));
    host.out[0] = node.out[0];
    node.op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace plimsoll::lower
