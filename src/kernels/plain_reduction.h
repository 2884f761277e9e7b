// Reductions over any axes in plain loops: all of i32 and i64, which are exact and wrap around, and products of f32.
#pragma once

#include "kernels/reduction.h"

namespace plimsoll::kernels {

enum class PlainReduce : uint8_t { Sum, Max, Min, Product };

// y = reduce(x), or y joined with that.
Prepared prepare_plain_reduction(const Facts& facts, PlainReduce how, const Dims& axes);

}  // namespace plimsoll::kernels
