// Rewrites that save a pass over memory or a product. Each leaves the results as they were.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

// y = act(matmul(...)), act(conv2d(...)), act(batch_norm(...)): the activation is done while the result is in cache.
void fuse_activation(Draft& draft);

// The backward of batch_norm with a fused activation masks its gradient itself.
void fuse_norm_backward(Draft& draft);

// The gradient of an activation that only asks where its output lies (relu, clip) is masked before a max_pool spreads
// it: by the pooled output, which is smaller.
void fuse_pool_backward(Draft& draft);

// linear_cross_entropy and its gradient in one sweep, where the gradient of the loss is there before the loss, as it is
// when training. It makes the logits once: while it runs it holds some of them, unless the planner asks it to be slim.
void fuse_loss(Draft& draft);

// Chains of element-wise operators over one shape run tile by tile as one operator.
void fuse_elementwise(Draft& draft);

}  // namespace plimsoll::lower
