#include "lower/fuse.h"
#include "ops/ops.h"

namespace plimsoll::lower {

void fuse_loss(Draft& draft) {
  static const Op* const kWithGrad = ops::find_op("linear_cross_entropy_with_grad");
  const Uses uses(draft);
  const std::vector<ValueId> roots = find_roots(draft);
  for (DraftNode& grad : draft.nodes) {
    if (grad.op->name != "linear_cross_entropy_grad") continue;
    const ValueId sums = grad.in[3];  // of the loss, which nobody else asks for
    const ValueId seed = roots[static_cast<size_t>(grad.in[4])];
    if (uses.count(sums) != 1 || uses.producer(seed) >= 0) continue;
    DraftNode& loss = draft.nodes[static_cast<size_t>(uses.producer(sums))];
    loss.op = kWithGrad;
    loss.in.push_back(seed);
    loss.out = {loss.out[0], grad.out[0], grad.out[1]};
    grad.op = nullptr;
  }
  remove_dead(draft);
}

}  // namespace plimsoll::lower
