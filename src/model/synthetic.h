// Synthetic data, for measurements that do not depend on its values.
#pragma once

#include <cstddef>
#include <cstdint>

#include <plimsoll/tensor.h>

namespace plimsoll::model {

// Fills a batch of values of that type (f32 or i32), row-major: reals in [0, 1), or whole numbers below the number of
// classes.
void fill_synthetic(const TensorType& type, int64_t batch, int64_t classes, std::byte* into);

}  // namespace plimsoll::model
