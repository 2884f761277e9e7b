// How images of bytes lie: the channels of a pixel side by side, pixel after pixel. All int8 kernels take and give
// this.
#pragma once

#include "kernels/kernel.h"

namespace plimsoll::kernels {

// For images [N,C,H,W].
Layout by_pixels(DType dtype, const Dims& image);
bool lies_by_pixels(const ConcreteType& type);
// [N,C,H,W] as [N,H,W,C], and the number of the axis there.
Dims pixels_first(const Dims& image);
int64_t axis_by_pixels(int64_t axis);

}  // namespace plimsoll::kernels
