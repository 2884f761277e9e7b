// Keeps one bit an element instead of the element, where the backward pass needs no more.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

// The gradients of relu and clip only need to know where their output lies between two numbers. An output that the
// backward pass needs for nothing else is packed into bits right after it is computed, and dies after its forward
// readers. Runs after fuse_norm_backward and fuse_pool_backward, which need no mask, and before fuse_elementwise.
void use_masks(Draft& draft);

}  // namespace plimsoll::lower
