// Rewrites that save a pass over memory or a product. Each leaves the results as they were.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

// y = act(matmul(...)), act(conv2d(...)), act(batch_norm(...)): the activation runs while the result is in cache.
void fuse_activation(Draft& draft);

// The backward of batch_norm with a fused activation masks its gradient itself.
void fuse_norm_backward(Draft& draft);

// The gradient of relu or clip moves before that of max_pool, where it is masked by the pooled output, which is
// smaller.
void fuse_pool_backward(Draft& draft);

// linear_cross_entropy and its gradient in one operator, where the seed of the gradient is a constant, as in training.
// The logits are computed once; a tile of them is held at a time, a smaller one in the slim variant.
void fuse_loss(Draft& draft);

// Chains of element-wise operators over one shape run tile by tile as one operator.
void fuse_elementwise(Draft& draft);

}  // namespace plimsoll::lower
