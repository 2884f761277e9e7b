#include <string>

#include "lower/fuse.h"

namespace plimsoll::lower {
namespace {

// The activation whose gradient the node is, if that gradient depends only on where the output lies; else empty.
std::string_view masked_activation(const DraftNode& node) {
  const graph::Fusion& fusion = node.op->fusion;
  if (fusion.passes == nullptr || fusion.gradient_of == nullptr) return {};
  const graph::Fusion& forward = fusion.gradient_of->fusion;
  return forward.activation == nullptr ? std::string_view() : forward.activation(*node.attrs);
}

}  // namespace

void fuse_norm_backward(Draft& draft) {
  const Uses uses(draft);
  const auto node_of = [&](ValueId value) {
    const int at = uses.producer(value);
    return at < 0 ? nullptr : &draft.nodes[static_cast<size_t>(at)];
  };
  for (DraftNode& grad : draft.nodes) {
    const auto& through = grad.op->fusion.through_activation;
    if (!through || grad.attrs->has("activation")) continue;
    ValueId& dy = grad.in[static_cast<size_t>(through->dy)];
    DraftNode* mask = node_of(dy);
    if (mask == nullptr || mask->op == nullptr || uses.count(dy) != 1) continue;
    const std::string activation(masked_activation(*mask));
    if (activation.empty()) continue;
    // The activation must be the one that the forward operator of this gradient applied.
    const DraftNode* norm = node_of(mask->in[1]);
    if (norm == nullptr || norm->op != grad.op->fusion.gradient_of || norm->attrs->s("activation") != activation)
      continue;
    if (norm->in[0] != grad.in[static_cast<size_t>(through->x)]) continue;
    graph::Attrs attrs = *grad.attrs;
    attrs.set("activation", activation);
    grad.attrs = draft.keep(std::move(attrs));
    dy = mask->in[0];
    grad.in.push_back(norm->in[static_cast<size_t>(through->more)]);
    mask->op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace plimsoll::lower
