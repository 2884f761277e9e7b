#include "kernels/pixel_order.h"

#include <array>

#include "kernels/dnnl_layout.h"

namespace plimsoll::kernels {

Layout by_pixels(DType dtype, const Dims& image) {
  return Layout(dnnl::memory::desc(to_dnnl(image), to_dnnl(dtype), dnnl::memory::format_tag::nhwc));
}

bool lies_by_pixels(const ConcreteType& type) {
  return type.dims.rank() == 4 && type.layout == by_pixels(type.dtype, type.dims);
}

Dims pixels_first(const Dims& image) { return {image[0], image[2], image[3], image[1]}; }

int64_t axis_by_pixels(int64_t axis) { return std::array<int64_t, 4>{0, 3, 1, 2}[static_cast<size_t>(axis)]; }

}  // namespace plimsoll::kernels
