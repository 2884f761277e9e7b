// Values that the backward pass reads are kept in 16 bits between their uses: lossy, only on request.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

// Such a value is rounded to bf16 once, right after it is made, and every reader, forward or backward, sees the rounded
// numbers:
//
//   x ──cast──► half x ──cast──► forward readers        (an element-wise reader takes the 16 bits as they are)
//                      └──cast──► backward readers
//
// So the gradient matches the forward pass, a wide copy can be recomputed from the 16 bits at any time, and results do
// not depend on the line, which this rewrite does not see. Returns the number of values kept in 16 bits.
int store_in_half(Draft& draft, int64_t batch);

}  // namespace plimsoll::lower
