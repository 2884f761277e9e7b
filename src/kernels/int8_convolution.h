// Convolutions of bytes. x is u8, the filter i8, sums have 32 bits. A sum becomes activation(scale[c] * sum +
// offset[c]) for its output channel c, stored as f32, or rounded half to even and saturated to u8.
//
// A zero point of x is part of the offsets: sum(w (x - zero)) = sum(w x) - zero sum(w). Pads count as x = 0.
#pragma once

#include <cmath>

#include "kernels/convolution.h"

namespace plimsoll::kernels {

// Whether the processor adds products of bytes in 32 bits (VNNI). Others add pairs of products in 16 bits, which
// saturate unless filters keep within [-64, 63]: 2 * 255 * 64 < 2^15.
bool adds_bytes_exactly();

// Inputs x u8, filter i8, scale and offset f32[O]; output y f32 or u8. Images lie by pixels. The settings are `low` and
// `high`, and `full_range`: the filter may pass [-64, 63]. Throws Error where the processor can't multiply such a
// filter.
Prepared prepare_int8_convolution(const Facts& facts, const ConvolutionSizes& sizes);
// The same for rows: x u8[M,K], filter i8[N,K], y [M,N], all row-major but the filter.
Prepared prepare_int8_product(const Facts& facts);

Cost cost_of_int8_convolution(const ConvolutionSizes& sizes);

// The most products that a sum of 32 bits holds.
constexpr int64_t kMostByteProducts = (int64_t{1} << 31) / (255 * 128);

// Rounds half to even.
inline uint8_t to_saturated_byte(float number) {
  return static_cast<uint8_t>(std::lrintf(number > 0 ? (number < 255 ? number : 255.0F) : 0.0F));
}

}  // namespace plimsoll::kernels
