// The gradient of the kernel, and of a bias, of a convolution over images of one channel. Vectors hold neighbouring
// outputs; each pixel of the gradient meets all numbers of the image that its kernel saw.
#pragma once

#include <vector>

#include <plimsoll/bytes.h>
#include "kernels/kernel_grad.h"
#include "kernels/window.h"

namespace plimsoll::kernels {

class OneChannelFilterGrad {
 public:
  struct Sizes {
    int64_t samples, outputs;
    int64_t block;                         // outputs beside each other: gradients nChw8c or 16c, kernels Ohwi8o or 16o
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
  int64_t sum_floats() const;   // of all outputs, of one piece of the work
  int64_t band_floats() const;  // of the rows of an image that a band of the result sees, zeros around them

  Sizes n_;
  int64_t taps_;                  // numbers that a pixel meets
  std::vector<int64_t> offsets_;  // of the taps in a band, filled up to whole groups
  int64_t band_rows_, bands_, pieces_;
  std::array<int64_t, 2> band_size_;
  int slots_;  // threads
};

}  // namespace plimsoll::kernels
