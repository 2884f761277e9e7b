// Rearranged elements, as other operators use them.
#pragma once

#include "ops/ops.h"

namespace plimsoll::ops {

// The gradient of windows: `whole` elements along the axis, in which windows that overlap are added.
Tensor fold_windows(Tensor x, int axis, int64_t whole, int64_t size, int64_t step, int64_t dilation, Name name = {});

}  // namespace plimsoll::ops
