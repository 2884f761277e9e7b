#include "kernels/winograd.h"

#include <algorithm>

#include "kernels/parallel.h"
#include "kernels/product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd.cpp"
#include <hwy/foreach_target.h>

#include "kernels/activate-inl.h"
#include "kernels/winograd-inl.h"

#ifndef PLIMSOLL_KERNELS_WINOGRAD_ONCE
#define PLIMSOLL_KERNELS_WINOGRAD_ONCE
namespace plimsoll::kernels {
namespace {

struct TileOut {
  const float* from;
  int64_t stride;
  const float *bias, *residual;  // residual: as `plane`
  float* plane;
  int64_t height, width, row, column;
  Activation activation;
};

// Filters of 3x3 for one block of outputs: weights at from[3 row + column].
struct KernelIn {
  const float* from[9];
  float* to;
  int64_t stride;
};

}  // namespace
}  // namespace plimsoll::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {

int64_t lanes() { return block_lanes(); }
void transform_in(const TileIn& t) { change_tile(t); }

void transform_kernel_in(const KernelIn& k) {
  const FloatTag d;
  Floats in[9], half[3 * kSide];
  for (int64_t i = 0; i < 9; ++i) in[i] = hn::LoadU(d, k.from[i]);
  for (int64_t j = 0; j < 3; ++j) change_kernel<3, 3>(in + j, half + j);
  for (int64_t i = 0; i < kSide; ++i) {
    Floats out[kSide];
    change_kernel<1, 1>(half + 3 * i, out);
    for (int64_t j = 0; j < kSide; ++j) hn::StoreU(out[j], d, k.to + (i * kSide + j) * k.stride);
  }
}

void transform_out(const TileOut& t) {
  const FloatTag d;
  const int64_t block = lanes();
  Floats in[kPoints], half[kResult * kSide];
  for (int64_t i = 0; i < kPoints; ++i) in[i] = hn::LoadU(d, t.from + i * t.stride);
  for (int64_t j = 0; j < kSide; ++j) change_result<kSide, kSide>(in + j, half + j);
  const Floats bias = t.bias != nullptr ? hn::LoadU(d, t.bias) : hn::Zero(d);
  const int64_t rows = std::min(kResult, t.height - t.row), columns = std::min(kResult, t.width - t.column);
  for (int64_t i = 0; i < rows; ++i) {
    Floats out[kResult];
    change_result<1, 1>(half + i * kSide, out);
    const int64_t at = ((t.row + i) * t.width + t.column) * block;
    for (int64_t j = 0; j < columns; ++j) {
      Floats y = hn::Add(out[j], bias);
      if (t.residual != nullptr) y = hn::Add(y, hn::LoadU(d, t.residual + at + j * block));
      hn::StoreU(activate(y, t.activation), d, t.plane + at + j * block);
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(lanes);
HWY_EXPORT(transform_in);
HWY_EXPORT(transform_kernel_in);
HWY_EXPORT(transform_out);

constexpr int64_t kMostBlock = 16;

}  // namespace

int64_t Winograd::block() { return HWY_DYNAMIC_DISPATCH(lanes)(); }

bool Winograd::suits(const Sizes& sizes) {
  constexpr int64_t kFewestChannels = 32, kFewestTiles = 48;
  const int64_t block = Winograd::block();
  return (block == 8 || block == kMostBlock) && sizes.inputs % block == 0 && sizes.outputs % block == 0 &&
         std::min(sizes.inputs, sizes.outputs) >= kFewestChannels && sizes.tiles() >= kFewestTiles;
}

int64_t Winograd::Sizes::outputs_at_once() const {
  constexpr int64_t kFewest = 32;
  const int64_t numbers = block() == 8 ? 2'400'000 : 1'200'000, strip = 2 * block();
  return std::min(outputs, std::max(kFewest, numbers / (kPoints * inputs) / strip * strip));
}

Winograd::Winograd(const Sizes& sizes, bool is_backward, Activation activation)
    : sizes_(sizes), is_backward_(is_backward), activation_(activation), block_(block()), slots_(thread_slots()) {
  constexpr int64_t kTileNumbers = 12'288, kMostTiles = 48;
  // Each thread has a chunk.
  const int64_t each = std::max<int64_t>(1, (sizes.tiles() + slots_ - 1) / slots_);
  chunk_tiles_ = std::min(each, std::clamp(kTileNumbers / sizes.inputs / kPanel * kPanel, 2 * kPanel, kMostTiles));
  chunk_outputs_ = sizes.outputs_at_once();
}

int64_t Winograd::kernel_stride(int64_t outputs) const { return stride_of(sizes_.inputs * outputs); }

Bytes Winograd::workspace_bytes() const {
  const int64_t tiles = stride_of(chunk_tiles_ * sizes_.inputs) + stride_of(chunk_tiles_ * chunk_outputs_);
  return kPoints * (kernel_stride(chunk_outputs_) + slots_ * tiles) * static_cast<Bytes>(sizeof(float));
}

// One block of inputs by one of outputs at a time, into strips as products read them.
void Winograd::transform_kernel(const float* kernel, int64_t first, int64_t count, float* into) const noexcept {
  const int64_t input_blocks = sizes_.inputs / block_, output_blocks = count / block_, strip = 2 * block_;
  parallel_for(input_blocks * output_blocks, 4, [&](int64_t begin, int64_t end) {
    float turned[9 * kMostBlock * kMostBlock];
    for (int64_t pair = begin; pair < end; ++pair) {
      const int64_t in_block = pair / output_blocks, out = pair % output_blocks * block_;
      const int64_t out_block = first / block_ + out / block_;
      const int64_t rows = is_backward_ ? in_block : out_block, columns = is_backward_ ? out_block : in_block;
      const int64_t all_columns = (is_backward_ ? sizes_.outputs : sizes_.inputs) / block_;
      const float* from = kernel + (rows * all_columns + columns) * 9 * block_ * block_;
      if (is_backward_) {  // upside down, and inputs become outputs
        for (int64_t point = 0; point < 9; ++point)
          for (int64_t i = 0; i < block_; ++i)
            for (int64_t o = 0; o < block_; ++o)
              turned[(8 - point) * block_ * block_ + o * block_ + i] = from[point * block_ * block_ + i * block_ + o];
        from = turned;
      }
      for (int64_t i = 0; i < block_; ++i) {
        const int64_t input = in_block * block_ + i, stretch = input / kDepth * kDepth;
        const int64_t depth = std::min(kDepth, sizes_.inputs - stretch);
        const int64_t at_strip = out / strip, width = std::min(strip, count - at_strip * strip);
        KernelIn one;
        for (int64_t point = 0; point < 9; ++point) one.from[point] = from + point * block_ * block_ + i * block_;
        one.to = into + stretch * count + at_strip * strip * depth + (input - stretch) * width + out % strip;
        one.stride = kernel_stride(count);
        HWY_DYNAMIC_DISPATCH(transform_kernel_in)(one);
      }
    }
  });
}

void Winograd::run_tiles(const Operands& in, int64_t first_tile, int64_t tiles, int64_t first_output, int64_t outputs,
                         const float* kernel, const Tiles& held) const noexcept {
  const Sizes& n = sizes_;
  const int64_t image_stride = stride_of(tiles * n.inputs), product_stride = stride_of(tiles * outputs);
  for (int64_t t = 0; t < tiles; ++t) {
    const auto [sample, row, column] = n.place_of(first_tile + t);
    const int64_t plane = n.height * n.width * block_;
    for (int64_t block = 0; block < n.inputs / block_; ++block) HWY_DYNAMIC_DISPATCH(transform_in)
    ({in.x + (sample * n.inputs / block_ + block) * plane, n.height, n.width, row - n.top, column - n.left,
      held.image + t * n.inputs + block * block_, image_stride});
  }
  for (int64_t point = 0; point < kPoints; ++point)
    for (int64_t k = 0; k < n.inputs; k += kDepth)
      multiply({.rows = tiles,
                .columns = outputs,
                .inner = std::min(kDepth, n.inputs - k),
                .a = held.image + point * image_stride + k,
                .a_row_stride = n.inputs,
                .a_column_stride = 1,
                .a_panel_stride = kPanel * n.inputs,
                .b = kernel + point * kernel_stride(outputs) + k * outputs,
                .bias = nullptr,
                .c = held.product + point * product_stride,
                .c_stride = outputs,
                .adds = k > 0,
                .activation = Activation::None});
  for (int64_t t = 0; t < tiles; ++t) {
    const auto [sample, row, column] = n.place_of(first_tile + t);
    for (int64_t output = 0; output < outputs; output += block_) {
      const int64_t channel = first_output + output;
      const int64_t plane = (sample * n.outputs + channel) * n.out_height * n.out_width;
      HWY_DYNAMIC_DISPATCH(transform_out)
      ({held.product + t * outputs + output, product_stride, in.bias != nullptr ? in.bias + channel : nullptr,
        in.residual != nullptr ? in.residual + plane : nullptr, in.y + plane, n.out_height, n.out_width, row, column,
        activation_});
    }
  }
}

void Winograd::run(const Operands& in, void* workspace) const noexcept {
  auto* kernel = static_cast<float*>(workspace);
  float* tiles = kernel + kPoints * kernel_stride(chunk_outputs_);
  const int64_t image_numbers = kPoints * stride_of(chunk_tiles_ * sizes_.inputs);
  const int64_t slot_numbers = image_numbers + kPoints * stride_of(chunk_tiles_ * chunk_outputs_);
  const int64_t chunks = (sizes_.tiles() + chunk_tiles_ - 1) / chunk_tiles_;
  for (int64_t first = 0; first < sizes_.outputs; first += chunk_outputs_) {
    const int64_t outputs = std::min(chunk_outputs_, sizes_.outputs - first);
    transform_kernel(in.kernel, first, outputs, kernel);
#pragma omp parallel for schedule(dynamic) num_threads(slots_)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      float* own = tiles + omp_get_thread_num() * slot_numbers;
      const int64_t first_tile = chunk * chunk_tiles_;
      run_tiles(in, first_tile, std::min(chunk_tiles_, sizes_.tiles() - first_tile), first, outputs, kernel,
                {own, own + image_numbers});
    }
  }
}

}  // namespace plimsoll::kernels
#endif
