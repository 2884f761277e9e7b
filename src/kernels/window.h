// How a window (of a convolution or a pooling) moves over an image.
#pragma once

#include <array>
#include <cstdint>

#include "graph/op.h"

namespace plimsoll {

struct Window {
  std::array<int64_t, 2> strides{1, 1};     // down, across
  std::array<int64_t, 4> pads{0, 0, 0, 0};  // top, left, bottom, right
  std::array<int64_t, 2> dilations{1, 1};   // 1: no holes
  int64_t groups = 1;

  static Window strided(int64_t stride, int64_t pad = 0) { return {{stride, stride}, {pad, pad, pad, pad}, {1, 1}, 1}; }
  static Window padded(int64_t pad) { return strided(1, pad); }
};

// As Keras' padding="same": the pads that make ceil(size / stride) outputs.
std::array<int64_t, 4> same_pads(std::array<int64_t, 2> image, std::array<int64_t, 2> kernel, const Window& window);

}  // namespace plimsoll

namespace plimsoll::kernels {

// A window among the settings of a node.
Attrs attrs_of(const Window& window);
Window window_of(const Attrs& attrs);

// Where a window of `kernel` size stops: the size of the output; fails when it does not fit even once, or makes no
// sense.
std::array<int64_t, 2> output_size(const Infer& n, std::array<int64_t, 2> image, std::array<int64_t, 2> kernel);

}  // namespace plimsoll::kernels
