// Synthetic data, for measurements that do not depend on its values.
#pragma once

#include <cstddef>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll::model {

// A batch of values of that type (f32 or i32), row-major: reals in [0, 1), or whole numbers below the number of
// classes.
std::vector<std::byte> synthetic(const TensorType& type, int64_t batch, int64_t classes);

}  // namespace plimsoll::model
