// Transposes matrices of four-byte elements in vectors.
#pragma once

#include <cstdint>

namespace plimsoll::kernels {

// to[r][c] = from[c][r]; strides in elements.
struct PanelOf32 {
  const uint32_t* from;
  uint32_t* to;
  int64_t from_stride, to_stride;
};
void transpose_panel(const PanelOf32& panel, int64_t rows, int64_t columns);

}  // namespace plimsoll::kernels
