#include "kernels/packed_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr float kLargestCode = 127;

// Rounds up to 16 significant bits.
float round_up_to_16_bits(float x) {
  constexpr uint32_t kDropped = 0xFF;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + kDropped) & ~kDropped);
}

// NaN where a weight is not finite: all weights of the stretch are then unpacked as NaN.
float scale_of(float largest) {
  if (!std::isfinite(largest)) return std::numeric_limits<float>::quiet_NaN();
  return round_up_to_16_bits(largest / kLargestCode);
}

int8_t code_of(float x, float scale) {
  if (std::isnan(scale)) return 1;
  return scale > 0 ? static_cast<int8_t>(std::clamp(std::nearbyint(x / scale), -kLargestCode, kLargestCode))
                   : int8_t{0};
}

// The larger of both, or NaN if one of them is.
float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }

// Rounds to nearest, ties to even.
uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace

PackedWeights::PackedWeights(DType type, const Dims& dims) : dtype(type), rows(dims[0]), columns(1) {
  for (int i = 1; i < dims.rank(); ++i) columns *= dims[i];
  if (dtype != DType::I8) return;
  (dims.rank() == 2 ? row_stretch : column_stretch) = kStretch;
}

Bytes PackedWeights::bytes() const {
  if (dtype != DType::I8) return 2 * count();
  return scales_at() + scale_rows() * scale_columns() * static_cast<Bytes>(sizeof(float));
}

int64_t PackedWeights::rows_within(Bytes bytes) const {
  const int64_t fit = bytes / (columns * static_cast<Bytes>(sizeof(float)));
  return std::min(rows, std::max(row_stretch, fit / row_stretch * row_stretch));
}

void PackedWeights::pack(const float* from, int64_t first, int64_t count, std::byte* packed) const noexcept {
  if (dtype == DType::I8) return pack_codes(from, first, count, packed);
  auto* to = reinterpret_cast<uint16_t*>(packed) + first * columns;
  parallel_for(count * columns, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = to_bf16(from[i]);
  });
}

void PackedWeights::pack_codes(const float* from, int64_t first, int64_t count, std::byte* packed) const noexcept {
  auto* codes = reinterpret_cast<int8_t*>(packed) + first * columns;
  auto* scales = reinterpret_cast<float*>(packed + scales_at()) + first / row_stretch * scale_columns();
  const int64_t stretches = (count + row_stretch - 1) / row_stretch;
  parallel_for(stretches * scale_columns(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t top = i / scale_columns() * row_stretch, left = i % scale_columns() * column_stretch;
      const int64_t bottom = std::min(count, top + row_stretch), right = std::min(columns, left + column_stretch);
      float largest = 0;
      for (int64_t r = top; r < bottom; ++r)
        for (int64_t c = left; c < right; ++c) largest = larger(largest, std::abs(from[r * columns + c]));
      scales[i] = scale_of(largest);
      for (int64_t r = top; r < bottom; ++r)
        for (int64_t c = left; c < right; ++c) codes[r * columns + c] = code_of(from[r * columns + c], scales[i]);
    }
  });
}

void PackedWeights::unpack(const std::byte* packed, int64_t first, int64_t count, float* into) const noexcept {
  const int64_t grain = 1 + 16384 / (columns + 1);
  if (dtype != DType::I8) {
    const auto* from = reinterpret_cast<const uint16_t*>(packed) + first * columns;
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * columns; i < end * columns; ++i)
        into[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
    });
    return;
  }
  const auto* codes = reinterpret_cast<const int8_t*>(packed);
  const auto* scales = reinterpret_cast<const float*>(packed + scales_at());
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = first + begin; row < first + end; ++row) {
      const int8_t* code = codes + row * columns;
      const float* scale = scales + row / row_stretch * scale_columns();
      float* const to = into + (row - first) * columns;
      if (column_stretch == 1) {
        for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<float>(code[c]) * scale[c];
        continue;
      }
      for (int64_t left = 0; left < columns; left += column_stretch, ++scale)
        for (int64_t c = left; c < std::min(columns, left + column_stretch); ++c)
          to[c] = static_cast<float>(code[c]) * *scale;
    }
  });
}

}  // namespace plimsoll::kernels
