// Rows and elements by number along an axis, as other operators use them.
#pragma once

#include "ops/ops.h"

namespace plimsoll::ops {

Tensor gather_along(Tensor table, Tensor rows, int axis, int64_t shared, Name name = {});
// The gradient of take_along_axis: elements added into zeros of the shape `whole`.
Tensor put_along_axis(Tensor dy, Tensor numbers, int axis, const Shape& whole);

// The last dimension of `points` holds the numbers of a place in the dimensions of `table` from `first` on: that of the
// place among all of theirs, and the shape in which these dimensions are one.
Tensor flat_rows(std::string_view op, Tensor table, Tensor points, int first, Name name);
Shape flat_shape(const Shape& table, int first, int64_t count);

}  // namespace plimsoll::ops
