// One bit an element instead of the element itself, where the backward part needs no more of it.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

// The gradients of relu and clip ask of their output only where it lies between two numbers. An output that the
// backward pass needs for nothing else is packed into bits where it is made, and dies after its forward readers. To be
// run before chains of element-wise operators are fused and after the gradients of activations found better places.
void use_masks(Draft& draft);

}  // namespace plimsoll::lower
