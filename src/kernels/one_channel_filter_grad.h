// The gradient of the filter, and of a bias, of a convolution over images of one channel. Vectors hold neighbouring
// output channels; each pixel of dy is multiplied with every pixel under its window (the taps).
#pragma once

#include <vector>

#include <plimsoll/types.h>
#include "kernels/kernel_grad.h"
#include "kernels/window.h"

namespace plimsoll::kernels {

class OneChannelFilterGrad {
 public:
  struct Sizes {
    int64_t samples, outputs;
    int64_t block;                         // outputs beside each other: gradients nChw8c or 16c, filters Ohwi8o or 16o
    std::array<int64_t, 2> image, result;  // down, across
    std::array<int64_t, 2> kernel;
    Window window;
  };
  explicit OneChannelFilterGrad(const Sizes& sizes);
  Bytes workspace_bytes() const;

  using Operands = KernelGradOperands;
  void run(const Operands& in, void* workspace) const noexcept;

 private:
  void fill_band(const float* x, int64_t first_row, float* band) const noexcept;
  void take_band(const Operands& in, int64_t sample, int64_t first_row, const float* band, float* sums) const noexcept;
  void write(const Operands& in, const float* sums) const noexcept;
  int64_t blocks() const { return (n_.outputs + n_.block - 1) / n_.block; }
  int64_t sum_floats() const;   // sums over one piece, for all outputs
  int64_t band_floats() const;  // rows of an image under a band of the result, with their padding

  Sizes n_;
  int64_t taps_;                  // pixels under a window
  std::vector<int64_t> offsets_;  // of the taps in a band, filled up to whole groups
  int64_t band_rows_, bands_, pieces_;
  std::array<int64_t, 2> band_size_;
  int slots_;  // threads
};

}  // namespace plimsoll::kernels
