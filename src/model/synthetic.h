// Made-up data for measurements that need some and care little which.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/shape.h"

namespace plimsoll {

// A batch of values of that type (f32 or i32), row-major: reals in [0, 1), or whole numbers below the number of
// classes.
std::vector<std::byte> synthetic(const TensorType& type, int64_t batch, int64_t classes);

}  // namespace plimsoll
