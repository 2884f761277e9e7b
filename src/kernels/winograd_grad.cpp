// The gradient of the filter: products point by point as in the forward pass, but summed over tiles, not channels.
#include <algorithm>

#include "kernels/parallel.h"
#include "kernels/product.h"
#include "kernels/winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_grad.cpp"
#include <hwy/foreach_target.h>

#include "kernels/winograd-inl.h"

#ifndef PLIMSOLL_KERNELS_WINOGRAD_GRAD_ONCE
#define PLIMSOLL_KERNELS_WINOGRAD_GRAD_ONCE
namespace plimsoll::kernels {
namespace {

// The gradient of the filters of one input and one block of outputs: in the other basis, by point, and as 3x3.
struct KernelOut {
  const float* from;
  int64_t stride;
  float* to[9];
  bool adds;
};

struct PlaneSum {
  const float* from;
  int64_t samples, sample_stride, rows, columns;
  float* to;
  bool adds;
};

}  // namespace
}  // namespace plimsoll::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {

void transform_image(const TileIn& t) { change_tile(t); }

void transform_gradient(const TileIn& t) {
  const FloatTag d;
  const int64_t block = block_lanes();
  Floats in[kResult * kResult], half[kSide * kResult];
  for (int64_t i = 0; i < kResult; ++i)
    for (int64_t j = 0; j < kResult; ++j) {
      const int64_t row = t.row + i, column = t.column + j;
      const bool is_there = row < t.height && column < t.width;
      in[i * kResult + j] = is_there ? hn::LoadU(d, t.plane + (row * t.width + column) * block) : hn::Zero(d);
    }
  for (int64_t j = 0; j < kResult; ++j) change_gradient<kResult, kResult>(in + j, half + j);
  for (int64_t i = 0; i < kSide; ++i) {
    Floats out[kSide];
    change_gradient<1, 1>(half + i * kResult, out);
    for (int64_t j = 0; j < kSide; ++j) hn::StoreU(out[j], d, t.to + (i * kSide + j) * t.stride);
  }
}

void transform_kernel_back(const KernelOut& k) {
  const FloatTag d;
  Floats in[kPoints], half[3 * kSide];
  for (int64_t i = 0; i < kPoints; ++i) in[i] = hn::LoadU(d, k.from + i * k.stride);
  for (int64_t j = 0; j < kSide; ++j) change_kernel_back<kSide, kSide>(in + j, half + j);
  for (int64_t i = 0; i < 3; ++i) {
    Floats out[3];
    change_kernel_back<1, 1>(half + i * kSide, out);
    for (int64_t j = 0; j < 3; ++j) {
      float* to = k.to[3 * i + j];
      hn::StoreU(k.adds ? hn::Add(hn::LoadU(d, to), out[j]) : out[j], d, to);
    }
  }
}

// Rows first, then samples: long sums of small numbers lose little.
void sum_planes(const PlaneSum& p) {
  const FloatTag d;
  const int64_t block = block_lanes();
  Floats all = hn::Zero(d);
  for (int64_t sample = 0; sample < p.samples; ++sample) {
    const float* at = p.from + sample * p.sample_stride;
    Floats plane = hn::Zero(d);
    for (int64_t row = 0; row < p.rows; ++row) {
      Floats sum = hn::Zero(d);
      for (int64_t column = 0; column < p.columns; ++column, at += block) sum = hn::Add(sum, hn::LoadU(d, at));
      plane = hn::Add(plane, sum);
    }
    all = hn::Add(all, plane);
  }
  hn::StoreU(p.adds ? hn::Add(all, hn::LoadU(d, p.to)) : all, d, p.to);
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(transform_image);
HWY_EXPORT(transform_gradient);
HWY_EXPORT(transform_kernel_back);
HWY_EXPORT(sum_planes);

}  // namespace

WinogradKernelGrad::WinogradKernelGrad(const Winograd::Sizes& sizes)
    : sizes_(sizes), block_(Winograd::block()), strip_(2 * block_), chunk_outputs_(sizes.outputs_at_once()) {
  constexpr int64_t kNumbers = 1'500'000, kFewest = 24, kMost = 192;
  static_assert(kMost <= kDepth);
  chunk_tiles_ = std::clamp(kNumbers / (kPoints * (image_row() + chunk_outputs_)), kFewest, kMost);
}

int64_t WinogradKernelGrad::image_row() const { return stride_of(sizes_.inputs); }

WinogradKernelGrad::Held WinogradKernelGrad::held(void* workspace) const {
  auto* kernel = static_cast<float*>(workspace);
  float* gradient = kernel + kPoints * stride_of(sizes_.inputs * chunk_outputs_);
  return {gradient + kPoints * stride_of(chunk_tiles_ * chunk_outputs_), gradient, kernel};
}

Bytes WinogradKernelGrad::workspace_bytes() const {
  const int64_t numbers = stride_of(sizes_.inputs * chunk_outputs_) + stride_of(chunk_tiles_ * chunk_outputs_) +
                          stride_of(chunk_tiles_ * image_row());
  return kPoints * numbers * static_cast<Bytes>(sizeof(float));
}

// The gradient into strips, as products read their right side.
void WinogradKernelGrad::transform_tile(const Operands& in, int64_t tile, int64_t at, int64_t tiles, int64_t first,
                                        int64_t outputs, const Held& to) const noexcept {
  const Winograd::Sizes& n = sizes_;
  const auto [sample, row, column] = n.place_of(tile);
  const int64_t plane = n.height * n.width * block_, out_plane = n.out_height * n.out_width * block_;
  for (int64_t block = 0; block < n.inputs / block_; ++block) HWY_DYNAMIC_DISPATCH(transform_image)
  ({in.x + (sample * n.inputs / block_ + block) * plane, n.height, n.width, row - n.top, column - n.left,
    to.image + at * image_row() + block * block_, stride_of(tiles * image_row())});
  for (int64_t output = 0; output < outputs; output += block_) {
    const int64_t strip = output / strip_ * strip_, width = std::min(strip_, outputs - strip);
    HWY_DYNAMIC_DISPATCH(transform_gradient)
    ({in.dy + (sample * n.outputs + first + output) / block_ * out_plane, n.out_height, n.out_width, row, column,
      to.gradient + strip * tiles + at * width + output % strip_, stride_of(tiles * outputs)});
  }
}

void WinogradKernelGrad::sum_products(int64_t tiles, int64_t outputs, bool adds, const Held& at) const noexcept {
  constexpr int64_t kRows = 96;
  const int64_t parts = (sizes_.inputs + kRows - 1) / kRows;
#pragma omp parallel for schedule(dynamic)
  for (int64_t item = 0; item < kPoints * parts; ++item) {
    const int64_t point = item / parts, row = item % parts * kRows;
    multiply({.rows = std::min(kRows, sizes_.inputs - row),
              .columns = outputs,
              .inner = tiles,
              .a = at.image + point * stride_of(tiles * image_row()) + row,
              .a_row_stride = 1,
              .a_column_stride = image_row(),
              .a_panel_stride = kPanel,
              .b = at.gradient + point * stride_of(tiles * outputs),
              .bias = nullptr,
              .c = at.kernel + point * stride_of(sizes_.inputs * outputs) + row * outputs,
              .c_stride = outputs,
              .adds = adds,
              .activation = Activation::None});
  }
}

void WinogradKernelGrad::write_kernel(const Operands& in, int64_t first, int64_t outputs,
                                      const float* from) const noexcept {
  const int64_t input_blocks = sizes_.inputs / block_;
  parallel_for(outputs / block_ * sizes_.inputs, 8, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t output = item / sizes_.inputs * block_, input = item % sizes_.inputs;
      float* block = in.dkernel + ((first + output) / block_ * input_blocks + input / block_) * 9 * block_ * block_;
      KernelOut one{from + input * outputs + output, stride_of(sizes_.inputs * outputs), {}, in.adds};
      for (int64_t point = 0; point < 9; ++point) one.to[point] = block + (point * block_ + input % block_) * block_;
      HWY_DYNAMIC_DISPATCH(transform_kernel_back)(one);
    }
  });
}

void WinogradKernelGrad::sum_bias(const Operands& in) const noexcept {
  const Winograd::Sizes& n = sizes_;
  const int64_t plane = n.out_height * n.out_width * block_;
  parallel_for(n.outputs / block_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) HWY_DYNAMIC_DISPATCH(sum_planes)
    ({in.dy + block * plane, n.samples, n.outputs / block_ * plane, n.out_height, n.out_width,
      in.dbias + block * block_, in.adds});
  });
}

void WinogradKernelGrad::run(const Operands& in, void* workspace) const noexcept {
  const Held at = held(workspace);
  for (int64_t first = 0; first < sizes_.outputs; first += chunk_outputs_) {
    const int64_t outputs = std::min(chunk_outputs_, sizes_.outputs - first);
    for (int64_t done = 0; done < sizes_.tiles(); done += chunk_tiles_) {
      const int64_t tiles = std::min(chunk_tiles_, sizes_.tiles() - done);
      parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) transform_tile(in, done + t, t, tiles, first, outputs, at);
      });
      sum_products(tiles, outputs, done > 0, at);
    }
    write_kernel(in, first, outputs, at.kernel);
  }
  if (in.dbias != nullptr) sum_bias(in);
}

}  // namespace plimsoll::kernels
#endif
