// Along one axis, each element of the result is a weighted sum of a few elements of the input: the rows of a sparse
// matrix, which lie in workspace.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/kernel.h"

namespace plimsoll::kernels {

class AxisTaps {
 public:
  // For element `to`: writes `per` places in the input and their weights.
  using Fill = std::function<void(int64_t to, int64_t* places, float* weights)>;

  // `whole` is the shape of the input, `to` the size of the result along `axis`.
  AxisTaps(const Dims& whole, int64_t axis, int64_t to, int64_t per, Fill fill);

  Bytes forward_bytes() const;
  Bytes backward_bytes() const;
  void forward(const float* x, float* y, void* workspace) const;
  void backward(const float* dy, float* dx, void* workspace) const;
  // Each result is its first place as it is, whatever its type.
  void copy(const void* x, void* y, Bytes element_bytes, void* workspace) const;

 private:
  struct Lists {
    int64_t* places;
    float* weights;
  };
  Lists fill_lists(void* workspace) const;

  int64_t outer_ = 1, from_ = 1, to_, inner_ = 1, per_;
  Fill fill_;
};

}  // namespace plimsoll::kernels
