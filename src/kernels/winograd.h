// Convolutions with 3x3 filters and stride 1 by Winograd's minimal filtering, F(4x4, 3x3): images are cut into tiles of
// 6x6 that overlap by two; after a change of basis a tile and a filter are multiplied point by point, 36 products for
// 16 results instead of 144. Tiles and filters in that basis lie in workspace of the caller.
#pragma once

#include <plimsoll/types.h>
#include "kernels/activation.h"
#include "kernels/kernel_grad.h"

namespace plimsoll::kernels {

class Winograd {
 public:
  // Channels beside each other, as many as a vector has numbers: with 8, images are nChw8c and filters OIhw8i8o.
  static int64_t block();

  struct Sizes {
    int64_t samples, inputs, outputs;  // channels of the image and of the result
    int64_t height, width;             // of the image
    int64_t out_height, out_width;
    int64_t top, left;  // zeros before the first row and column
    int64_t tiles_down() const { return (out_height + 3) / 4; }
    int64_t tiles_across() const { return (out_width + 3) / 4; }
    int64_t tiles() const { return samples * tiles_down() * tiles_across(); }
    struct Place {
      int64_t sample, row, column;  // of the first number of the result
    };
    Place place_of(int64_t tile) const {
      const int64_t across = tiles_across(), each = tiles_down() * across;
      return {tile / each, tile % each / across * 4, tile % across * 4};
    }
    // Output channels whose filters are held in the other basis at once. They should stay in the shared cache; the
    // fewer they are, the more often the image is transformed.
    int64_t outputs_at_once() const;
  };
  // Whether Winograd is faster than oneDNN; a rule of sizes and vector width alone, so that results do not depend on
  // the number of threads.
  static bool suits(const Sizes& sizes);

  // `is_backward`: from the gradient of the result to that of the image, with the filter of the forward pass.
  Winograd(const Sizes& sizes, bool is_backward, Activation activation = Activation::None);
  Bytes workspace_bytes() const;

  struct Operands {
    const float *x, *kernel;
    const float* bias;      // for each output, or null
    const float* residual;  // added to the result, or null
    float* y;
  };
  void run(const Operands& in, void* workspace) const noexcept;

 private:
  struct Tiles {
    float *image, *product;  // by point: tiles of the image, of the result
  };
  void transform_kernel(const float* kernel, int64_t first, int64_t count, float* into) const noexcept;
  void run_tiles(const Operands& in, int64_t first_tile, int64_t tiles, int64_t first_output, int64_t outputs,
                 const float* kernel, const Tiles& held) const noexcept;
  int64_t kernel_stride(int64_t outputs) const;  // from point to point

  Sizes sizes_;
  bool is_backward_;
  Activation activation_;
  int64_t block_;
  int64_t chunk_tiles_, chunk_outputs_;
  int slots_;  // threads
};

// The gradient of the filter, and of a bias, of a convolution with 3x3 filters and stride 1.
class WinogradKernelGrad {
 public:
  explicit WinogradKernelGrad(const Winograd::Sizes& sizes);
  Bytes workspace_bytes() const;

  using Operands = KernelGradOperands;
  void run(const Operands& in, void* workspace) const noexcept;

 private:
  // Tiles of the image and of the gradient, and the gradient of the filter, all by point.
  struct Held {
    float *image, *gradient, *kernel;
  };
  Held held(void* workspace) const;
  int64_t image_row() const;  // numbers from one tile of the image to the next
  void transform_tile(const Operands& in, int64_t tile, int64_t at, int64_t tiles, int64_t first, int64_t outputs,
                      const Held& to) const noexcept;
  void sum_products(int64_t tiles, int64_t outputs, bool adds, const Held& at) const noexcept;
  void write_kernel(const Operands& in, int64_t first, int64_t outputs, const float* from) const noexcept;
  void sum_bias(const Operands& in) const noexcept;

  Winograd::Sizes sizes_;
  int64_t block_, strip_;
  int64_t chunk_tiles_, chunk_outputs_;
};

}  // namespace plimsoll::kernels
