#include "kernels/sparse_tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sparse_tiles.cpp"
#include <hwy/foreach_target.h>

#include "kernels/activate-inl.h"

#ifndef PLIMSOLL_KERNELS_SPARSE_TILES_ONCE
#define PLIMSOLL_KERNELS_SPARSE_TILES_ONCE
namespace plimsoll::kernels {
namespace {

// For each byte of a mask: the value that each of the eight columns takes, counted from the first of the row.
using PlacesOfByte = std::array<std::array<int32_t, 8>, 256>;
constexpr PlacesOfByte make_places() {
  PlacesOfByte places{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned bit = 0; bit < 8; ++bit)
      places[byte][bit] = (byte >> bit & 1U) != 0 ? std::popcount(byte & ((1U << bit) - 1)) : 0;
  return places;
}
alignas(64) constexpr PlacesOfByte kPlaces = make_places();

// Values of a tile, of which `left` can be read.
struct TileValues {
  const float* at;
  int64_t left;
  void skip(int count) {
    at += count;
    left -= count;
  }
};

inline void expand_one_by_one(unsigned byte, const float* values, float* to) {
  for (unsigned bit = 0; bit < 8; ++bit) to[bit] = (byte >> bit & 1U) != 0 ? *values++ : 0.0F;
}

}  // namespace
}  // namespace plimsoll::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {

using EightColumns = hn::CappedTag<float, 8>;

// Whether a vector holds all eight columns of a row.
#if HWY_TARGET != HWY_SCALAR
constexpr bool kHoldsEight = hn::MaxLanes(EightColumns()) == 8;
#else
constexpr bool kHoldsEight = false;
#endif

// Needs eight readable floats.
[[maybe_unused]] HWY_INLINE hn::Vec<EightColumns> expand_row(EightColumns d, unsigned byte, const float* values) {
  const hn::RebindToSigned<EightColumns> di;
  const auto bit = hn::Shl(hn::Set(di, 1), hn::Iota(di, 0));
  const auto there = hn::RebindMask(d, hn::TestBit(hn::Set(di, static_cast<int32_t>(byte)), bit));
  const auto places = hn::SetTableIndices(d, kPlaces[byte].data());
  return hn::IfThenElseZero(there, hn::TableLookupLanes(hn::LoadU(d, values), places));
}

void expand_tile(const uint8_t* mask, TileValues values, int64_t rows, float* to, int64_t stride) {
  int64_t r = 0;
  if constexpr (kHoldsEight) {
    const EightColumns d;
    for (; r < rows && values.left >= 8; ++r) {
      hn::StoreU(expand_row(d, mask[r], values.at), d, to + r * stride);
      values.skip(std::popcount(mask[r]));
    }
  }
  for (; r < rows; ++r) {
    expand_one_by_one(mask[r], values.at, to + r * stride);
    values.skip(std::popcount(mask[r]));
  }
}

template <int kVectors>
HWY_INLINE void multiply_rows(const uint8_t* mask, TileValues values, int64_t rows, const float* x, int64_t x_stride,
                              float (*sums)[8]) {
  int64_t r = 0;
  if constexpr (kHoldsEight) {
    const EightColumns d;
    hn::Vec<EightColumns> sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums[v]);
    for (; r < rows && values.left >= 8; ++r) {
      const auto row = expand_row(d, mask[r], values.at);
      for (int v = 0; v < kVectors; ++v) sum[v] = hn::MulAdd(hn::Set(d, x[v * x_stride + r]), row, sum[v]);
      values.skip(std::popcount(mask[r]));
    }
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums[v]);
  }
  // With vectors too: a multiply-add of single floats may round differently.
  const hn::CappedTag<float, 4> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (; r < rows; ++r) {
    float row[8];
    expand_one_by_one(mask[r], values.at, row);
    values.skip(std::popcount(mask[r]));
    for (int v = 0; v < kVectors; ++v)
      for (int c = 0; c < 8; c += lanes)
        hn::StoreU(hn::MulAdd(hn::Set(d, x[v * x_stride + r]), hn::LoadU(d, row + c), hn::LoadU(d, sums[v] + c)), d,
                   sums[v] + c);
  }
}

void multiply_tile(const uint8_t* mask, TileValues values, int64_t rows, const float* x, int64_t x_stride, int vectors,
                   float (*sums)[8]) {
  switch (vectors) {
    case 4:
      return multiply_rows<4>(mask, values, rows, x, x_stride, sums);
    case 3:
      return multiply_rows<3>(mask, values, rows, x, x_stride, sums);
    case 2:
      return multiply_rows<2>(mask, values, rows, x, x_stride, sums);
    default:
      return multiply_rows<1>(mask, values, rows, x, x_stride, sums);
  }
}

void activate_run(Activation activation, float* x, int64_t count) {
  const FloatTag d;
  for_vectors(count,
              [&](int64_t i, auto part) HWY_ATTR { part.store(d, activate(part.load(d, x + i), activation), x + i); });
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(expand_tile);
HWY_EXPORT(multiply_tile);
HWY_EXPORT(activate_run);

int64_t count_bits(const uint8_t* bytes, int64_t count) {
  int64_t bits = 0, i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    bits += std::popcount(word);
  }
  for (; i < count; ++i) bits += std::popcount(bytes[i]);
  return bits;
}

}  // namespace

bool SparseMatrix::has_tile(int64_t group, int64_t tile) const noexcept {
  const int64_t row = tile * SparseOrder::kTileRows;
  const int64_t start = starts[group * order.tiles_down() + tile];
  const int64_t bits = count_bits(mask + group * order.rows + row, std::min(SparseOrder::kTileRows, order.rows - row));
  return start >= 0 && start + bits <= value_count;
}

bool SparseMatrix::expand(int64_t group, int64_t row, int64_t rows, float* to, int64_t stride) const noexcept {
  const int64_t tile = row / SparseOrder::kTileRows;
  if (!has_tile(group, tile)) {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * stride, 8, 0.0F);
    return false;
  }
  const int64_t start = starts[group * order.tiles_down() + tile];
  HWY_DYNAMIC_DISPATCH(expand_tile)
  (mask + group * order.rows + row, TileValues{values + start, value_count - start}, rows, to, stride);
  return true;
}

bool SparseMatrix::multiply(int64_t group, const float* x, int64_t x_stride, int vectors,
                            float (*sums)[8]) const noexcept {
  bool is_whole = true;
  for (int64_t tile = 0; tile < order.tiles_down(); ++tile) {
    if (!has_tile(group, tile)) {
      is_whole = false;
      continue;
    }
    const int64_t row = tile * SparseOrder::kTileRows, start = starts[group * order.tiles_down() + tile];
    HWY_DYNAMIC_DISPATCH(multiply_tile)
    (mask + group * order.rows + row, TileValues{values + start, value_count - start},
     std::min(SparseOrder::kTileRows, order.rows - row), x + row, x_stride, vectors, sums);
  }
  return is_whole;
}

void activate_all(Activation activation, float* x, int64_t count) noexcept {
  if (activation != Activation::None) HWY_DYNAMIC_DISPATCH(activate_run)(activation, x, count);
}

}  // namespace plimsoll::kernels
#endif
