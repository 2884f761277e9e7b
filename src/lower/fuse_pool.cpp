#include "lower/fuse.h"

namespace plimsoll::lower {

// The gradient of max pooling goes to the largest element of each window, which equals the pooled value. So masking by
// the element or by the pooled value is the same:
//
//   act_grad(max_pool_grad(dp, winners), y)  =  max_pool_grad(act_grad(dp, p), winners)   with p = max_pool(y)
//
// p is mostly kept anyway, as the input of the next convolution, and y may die.
void fuse_pool_backward(Draft& draft) {
  const Uses uses(draft);
  const auto producer = [&](ValueId value) -> DraftNode* {
    const int at = uses.producer(value);
    return at < 0 ? nullptr : &draft.nodes[static_cast<size_t>(at)];
  };
  for (DraftNode& mask : draft.nodes) {
    if (mask.op->fusion.passes == nullptr) continue;
    DraftNode* spread = producer(mask.in[0]);
    if (spread == nullptr || uses.count(mask.in[0]) != 1) continue;
    const graph::Op* const selection = spread->op->fusion.gradient_of;
    if (selection == nullptr || !selection->fusion.selects) continue;
    const DraftNode* pool = producer(spread->in[1]);
    if (pool == nullptr || pool->op != selection || pool->out.size() != 2 || pool->out[1] != spread->in[1] ||
        pool->in[0] != mask.in[1])
      continue;
    const ValueId passed = draft.add_value(draft.type(spread->in[0]), draft.name(mask.out[0]) + "/pooled");
    DraftNode first{mask.op, mask.attrs, mask.origin, {spread->in[0], pool->out[0]}, {passed}};
    DraftNode second{spread->op, spread->attrs, spread->origin, {passed, spread->in[1]}, mask.out};
    *spread = std::move(first);
    mask = std::move(second);
  }
}

}  // namespace plimsoll::lower
