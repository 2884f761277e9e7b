// Values that the backward pass reads are kept in 16 bits between their uses, and products computed on them: lossy,
// only on request.
#pragma once

#include "lower/draft.h"

namespace plimsoll::lower {

struct HalfValues {
  int32_t count = 0;
  Bytes bytes = 0;                          // in 16 bits
  int32_t products = 0, half_products = 0;  // nodes of operators that know bf16, and those that compute in it
};

// Such a value is rounded to `dtype`, f16 or bf16, once, right after it is made, and every reader, forward or backward,
// sees the rounded numbers:
//
//   x ──cast──► half x ──cast──► forward readers        (an element-wise reader takes the 16 bits as they are)
//                      └──cast──► backward readers
//
// So the gradient matches the forward pass, a wide copy can be recomputed from the 16 bits at any time, and results do
// not depend on the line, which this rewrite does not see. Returns what is kept in 16 bits.
//
// With `half_products`, for bf16, products of steps that have a backward pass are computed in bf16 where their
// operators say that it is faster. They read the 16 bits as they are, and write them where their result is kept so:
//
//   half x ──conv2d──► half y        dy ──cast──► half dy ──► both gradients
HalfValues store_in_half(Draft& draft, int64_t batch, DType dtype, bool half_products = false);

}  // namespace plimsoll::lower
