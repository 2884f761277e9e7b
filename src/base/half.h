// Floats of 16 bits, one element at a time. Kernels convert whole vectors of f16 by vector instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

constexpr float from_f16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000U) << 16, magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  // Scaling by 2^112 moves the exponent from half to single, and makes subnormal halves normal.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

constexpr float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Rounds to nearest, ties to even; a NaN stays one.
constexpr uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16);
}

}  // namespace plimsoll
