// Values that the backward pass reads are kept in 16 bits between their uses: lossy, only on request.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

struct HalfValues {
  int32_t count = 0;
  Bytes bytes = 0;  // in 16 bits
};

// Such a value is rounded to `dtype`, f16 or bf16, once, right after it is made, and every reader, forward or backward,
// sees the rounded numbers:
//
//   x ──cast──► half x ──cast──► forward readers        (an element-wise reader takes the 16 bits as they are)
//                      └──cast──► backward readers
//
// So the gradient matches the forward pass, a wide copy can be recomputed from the 16 bits at any time, and results do
// not depend on the line, which this rewrite does not see. Returns what is kept in 16 bits.
HalfValues store_in_half(Draft& draft, int64_t batch, DType dtype);

}  // namespace plimsoll::lower
