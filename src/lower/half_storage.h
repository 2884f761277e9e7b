// Values that the backward pass reads again are kept in 16 bits between their uses: lossy, and only when asked for.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

// Such a value is rounded to bf16 once, right after it is made, and every reader, forward or backward, sees the rounded
// numbers:
//
//   x ──cast──► half x ──cast──► forward readers        (an element-wise reader takes the 16 bits as they are)
//                      └──cast──► backward readers
//
// So the gradient is that of what was computed, a wide copy can be made again from the 16 bits at any time, and results
// do not depend on the line: the rewriting does not know it. Returns how many values are kept so.
int store_in_half(Draft& draft, int64_t batch);

}  // namespace plimsoll::lower
