// How a window (of a convolution or a pooling) moves over an image.
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll {

using Size2d = std::array<int64_t, 2>;  // down, across

struct Window {
  Size2d strides{1, 1};
  std::array<int64_t, 4> pads{0, 0, 0, 0};  // top, left, bottom, right
  Size2d dilations{1, 1};                   // 1: no holes
  int64_t groups = 1;

  static Window strided(int64_t stride, int64_t pad = 0) { return {{stride, stride}, {pad, pad, pad, pad}, {1, 1}, 1}; }
  static Window padded(int64_t pad) { return strided(1, pad); }
};

// As Keras' padding="same": the pads that make ceil(size / stride) outputs.
std::array<int64_t, 4> same_pads(Size2d image, Size2d filter, const Window& window);

}  // namespace plimsoll
