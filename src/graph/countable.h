// The largest size that a value may have: sums of bytes over all values of a step then fit 64 bits.
#pragma once

#include <plimsoll/tensor.h>

namespace plimsoll::graph {

// Throws Error(Usage) for a value of more than 2^50 elements at that batch.
void expect_countable(const Shape& shape, int64_t batch = 1);

}  // namespace plimsoll::graph
