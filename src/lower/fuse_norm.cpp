#include <string>

#include "lower/fuse.h"

namespace plimsoll::lower {
namespace {

// The activation whose gradient the node is, by the name that batch_norm knows it under.
std::string activation_of(const DraftNode& node) {
  if (node.op->name == "relu_grad") return "relu";
  if (node.op->name == "clip_grad" && node.attrs->f("low") == 0 && node.attrs->f("high") == 6) return "relu6";
  return {};
}

}  // namespace

void fuse_norm_backward(Draft& draft) {
  const Uses uses(draft);
  const auto node_of = [&](ValueId value) {
    const int at = uses.producer(value);
    return at < 0 ? nullptr : &draft.nodes[static_cast<size_t>(at)];
  };
  for (DraftNode& grad : draft.nodes) {
    if (grad.op->name != "batch_norm_grad" || grad.attrs->has("activation")) continue;
    DraftNode* mask = node_of(grad.in[1]);
    if (mask == nullptr || mask->op == nullptr || uses.count(grad.in[1]) != 1) continue;
    const std::string activation = activation_of(*mask);
    if (activation.empty()) continue;
    // The mask is that of the very normalisation whose gradient this is.
    const DraftNode* norm = node_of(mask->in[1]);
    if (norm == nullptr || norm->op->name != "batch_norm" || norm->attrs->s("activation") != activation) continue;
    if (norm->in[0] != grad.in[0]) continue;
    Attrs attrs = *grad.attrs;
    attrs.set("activation", activation);
    grad.attrs = draft.keep(std::move(attrs));
    grad.in[1] = mask->in[0];
    grad.in.push_back(norm->in[2]);  // beta: where the gradient passes follows from the input, the output may die
    mask->op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace plimsoll::lower
