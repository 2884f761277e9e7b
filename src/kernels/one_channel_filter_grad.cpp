#include "kernels/one_channel_filter_grad.h"

#include <algorithm>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/one_channel_filter_grad.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef PLIMSOLL_KERNELS_GRAY_KERNEL_GRAD_ONCE
#define PLIMSOLL_KERNELS_GRAY_KERNEL_GRAD_ONCE
namespace plimsoll::kernels {
namespace {

// A row of the gradient, `block` outputs for each pixel, and the taps that it meets.
struct RowOfTaps {
  const float* dy;
  int64_t pixels, block;
  const float* image;
  int64_t step;  // from pixel to pixel
  const int64_t* offsets;
  int64_t taps;  // whole groups of kTapsAlone
  float* sums;   // `block` for each tap, then for the bias
};

// Sums in registers at once: enough to hide how long one addition takes. Five fit filters of five columns.
constexpr int kTapsAtOnce = 10;
constexpr int kTapsAlone = 5;

}  // namespace
}  // namespace plimsoll::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using OutputLanes = hn::CappedTag<float, 8>;

template <int kTaps>
HWY_INLINE void take_taps(const RowOfTaps& row, int64_t tap, int64_t output) {
  const OutputLanes d;
  float* sums = row.sums + tap * row.block + output;
  hn::Vec<OutputLanes> sum[kTaps];
  const float* from[kTaps];
  for (int t = 0; t < kTaps; ++t) {
    sum[t] = hn::LoadU(d, sums + t * row.block);
    from[t] = row.image + row.offsets[tap + t];
  }
  const float* dy = row.dy + output;
  int64_t at = 0;
  for (int64_t pixel = 0; pixel < row.pixels; ++pixel, dy += row.block, at += row.step) {
    const auto gradient = hn::LoadU(d, dy);
    for (int t = 0; t < kTaps; ++t) sum[t] = hn::MulAdd(gradient, hn::Set(d, from[t][at]), sum[t]);
  }
  for (int t = 0; t < kTaps; ++t) hn::StoreU(sum[t], d, sums + t * row.block);
}

HWY_INLINE void take_bias(const RowOfTaps& row, int64_t output) {
  const OutputLanes d;
  float* to = row.sums + row.taps * row.block + output;
  auto even = hn::LoadU(d, to);
  auto odd = hn::Zero(d);
  const float* dy = row.dy + output;
  int64_t pixel = 0;
  for (; pixel + 2 <= row.pixels; pixel += 2, dy += 2 * row.block) {
    even = hn::Add(even, hn::LoadU(d, dy));
    odd = hn::Add(odd, hn::LoadU(d, dy + row.block));
  }
  if (pixel < row.pixels) even = hn::Add(even, hn::LoadU(d, dy));
  hn::StoreU(hn::Add(even, odd), d, to);
}

void take_row(const RowOfTaps& row, bool with_bias) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(OutputLanes()));
  for (int64_t output = 0; output < row.block; output += lanes) {
    int64_t tap = 0;
    for (; tap + kTapsAtOnce <= row.taps; tap += kTapsAtOnce) take_taps<kTapsAtOnce>(row, tap, output);
    for (; tap < row.taps; tap += kTapsAlone) take_taps<kTapsAlone>(row, tap, output);
    if (with_bias) take_bias(row, output);
  }
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(take_row);

constexpr int64_t kBandRows = 32;
constexpr int64_t kMostPieces = 16;  // each has sums of its own

}  // namespace

OneChannelFilterGrad::OneChannelFilterGrad(const Sizes& sizes)
    : n_(sizes),
      taps_(sizes.kernel[0] * sizes.kernel[1]),
      band_rows_(std::min(kBandRows, sizes.result[0])),
      bands_((sizes.result[0] + band_rows_ - 1) / band_rows_),
      pieces_(std::min(sizes.samples * bands_, kMostPieces)),
      slots_(thread_slots()) {
  const Window& w = n_.window;
  band_size_ = {(band_rows_ - 1) * w.strides[0] + (n_.kernel[0] - 1) * w.dilations[0] + 1,
                (n_.result[1] - 1) * w.strides[1] + (n_.kernel[1] - 1) * w.dilations[1] + 1};
  for (int64_t row = 0; row < n_.kernel[0]; ++row)
    for (int64_t column = 0; column < n_.kernel[1]; ++column)
      offsets_.push_back(row * w.dilations[0] * band_size_[1] + column * w.dilations[1]);
  offsets_.resize(static_cast<size_t>(round_up(taps_, kTapsAlone)));  // sums of those beyond taps_ are not used
}

int64_t OneChannelFilterGrad::sum_floats() const {
  return blocks() * (static_cast<int64_t>(offsets_.size()) + 1) * n_.block;
}

int64_t OneChannelFilterGrad::band_floats() const { return round_up(band_size_[0] * band_size_[1], 16); }

Bytes OneChannelFilterGrad::workspace_bytes() const {
  return (pieces_ * sum_floats() + slots_ * band_floats()) * static_cast<Bytes>(sizeof(float));
}

void OneChannelFilterGrad::fill_band(const float* x, int64_t first_row, float* band) const noexcept {
  const int64_t top = first_row * n_.window.strides[0] - n_.window.pads[0];
  const int64_t left = std::min(n_.window.pads[1], band_size_[1]);  // a band may end within the padding
  const int64_t width = std::min(n_.image[1], band_size_[1] - left);
  for (int64_t row = top; row < top + band_size_[0]; ++row, band += band_size_[1]) {
    if (row < 0 || row >= n_.image[0]) {
      std::fill(band, band + band_size_[1], 0.0F);
      continue;
    }
    std::fill(band, band + left, 0.0F);
    std::copy_n(x + row * n_.image[1], width, band + left);
    std::fill(band + left + width, band + band_size_[1], 0.0F);
  }
}

void OneChannelFilterGrad::take_band(const Operands& in, int64_t sample, int64_t first_row, const float* band,
                                     float* sums) const noexcept {
  const int64_t rows = std::min(band_rows_, n_.result[0] - first_row);
  const auto taps = static_cast<int64_t>(offsets_.size());
  for (int64_t block = 0; block < blocks(); ++block) {
    const float* plane = in.dy + (sample * blocks() + block) * n_.result[0] * n_.result[1] * n_.block;
    for (int64_t row = 0; row < rows; ++row) HWY_DYNAMIC_DISPATCH(take_row)
    ({plane + (first_row + row) * n_.result[1] * n_.block, n_.result[1], n_.block,
      band + row * n_.window.strides[0] * band_size_[1], n_.window.strides[1], offsets_.data(), taps,
      sums + block * (taps + 1) * n_.block},
     in.dbias != nullptr);
  }
}

// Adds up the pieces, always in the same order.
void OneChannelFilterGrad::write(const Operands& in, const float* sums) const noexcept {
  const auto taps = static_cast<int64_t>(offsets_.size());
  const auto total = [&](int64_t at) {
    float sum = sums[at];
    for (int64_t piece = 1; piece < pieces_; ++piece) sum += sums[piece * sum_floats() + at];
    return sum;
  };
  for (int64_t block = 0; block < blocks(); ++block) {
    const int64_t from = block * (taps + 1) * n_.block;
    for (int64_t i = 0; i < taps_ * n_.block; ++i) {
      float& to = in.dkernel[block * taps_ * n_.block + i];
      to = total(from + i) + (in.adds ? to : 0.0F);
    }
    const int64_t outputs = in.dbias == nullptr ? 0 : std::min(n_.block, n_.outputs - block * n_.block);
    for (int64_t i = 0; i < outputs; ++i) {
      float& to = in.dbias[block * n_.block + i];
      to = total(from + taps * n_.block + i) + (in.adds ? to : 0.0F);
    }
  }
}

void OneChannelFilterGrad::run(const Operands& in, void* workspace) const noexcept {
  auto* sums = static_cast<float*>(workspace);
  float* image = sums + pieces_ * sum_floats();
  const int64_t items = n_.samples * bands_;
  parallel_items(pieces_, slots_, [&](int64_t piece, int slot) {
    float* own = sums + piece * sum_floats();
    float* band = image + slot * band_floats();
    std::fill(own, own + sum_floats(), 0.0F);
    for (int64_t item = items * piece / pieces_; item < items * (piece + 1) / pieces_; ++item) {
      const int64_t sample = item / bands_, first_row = item % bands_ * band_rows_;
      fill_band(in.x + sample * n_.image[0] * n_.image[1], first_row, band);
      take_band(in, sample, first_row, band, own);
    }
  });
  write(in, sums);
}

}  // namespace plimsoll::kernels
#endif
