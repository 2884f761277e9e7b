// Max pooling where each pixel is a block of channels side by side: one vector instruction works on the block.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/image_order.h"
#include "kernels/window.h"

namespace plimsoll::kernels {

struct PoolGeometry {
  std::array<int64_t, 2> image, result, size;  // down, across
  Window window;
};

// `order` is that of x, blocked. The index of a window's winner is its place in the window, row by row.
void max_pool_blocks(const PoolGeometry& g, const ImageOrder& order, const float* x, float* y,
                     uint8_t* indices) noexcept;
void max_pool_blocks_grad(const PoolGeometry& g, const ImageOrder& order, const float* dy, const uint8_t* indices,
                          float* dx) noexcept;

}  // namespace plimsoll::kernels
