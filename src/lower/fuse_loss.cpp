#include "lower/fuse.h"

namespace plimsoll::lower {

void fuse_loss(Draft& draft) {
  const Uses uses(draft);
  const std::vector<ValueId> roots = find_roots(draft);
  for (DraftNode& grad : draft.nodes) {
    if (!grad.op->fusion.with_forward) continue;
    const graph::Fusion::WithForward both = *grad.op->fusion.with_forward;
    const ValueId kept = grad.in[static_cast<size_t>(both.kept)];
    const ValueId seed = roots[static_cast<size_t>(grad.in[static_cast<size_t>(both.seed)])];
    if (uses.count(kept) != 1 || uses.producer(seed) >= 0) continue;
    DraftNode& loss = draft.nodes[static_cast<size_t>(uses.producer(kept))];
    if (loss.op != grad.op->fusion.gradient_of) continue;
    loss.op = both.op;
    loss.attrs = grad.attrs;  // those of the loss, and what the gradient is asked for
    loss.in.push_back(seed);
    loss.out = {loss.out[0]};
    loss.out.insert(loss.out.end(), grad.out.begin(), grad.out.end());
    grad.op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace plimsoll::lower
