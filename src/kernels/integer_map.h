// Element-wise operators on integers that the floats of a tile would round: exact, with the same broadcasting.
#pragma once

#include <array>

#include "kernels/kernel.h"
#include "kernels/parallel.h"

namespace plimsoll::kernels {

// Whether floats can't hold every number of the type.
constexpr bool is_large_integer(DType dtype) { return dtype == DType::I32 || dtype == DType::I64; }

// Walks all elements of the output, with the place of each in the inputs.
template <size_t kInputs>
class BroadcastWalk {
 public:
  explicit BroadcastWalk(const Facts& facts) : dims_(facts.out[0].dims), count_(facts.out[0].count()) {
    for (size_t i = 0; i < kInputs; ++i) {
      const Dims& from = facts.in[i].dims;
      strides_[i] = Dims::filled(dims_.rank(), 0);
      int64_t stride = 1;
      for (int d = from.rank() - 1; d >= 0; --d) {
        if (from[d] != 1) strides_[i][d + dims_.rank() - from.rank()] = stride;
        stride *= from[d];
      }
    }
  }

  // Calls body(index in the output, indices in the inputs).
  template <class Body>
  void run(const Body& body) const {
    parallel_for(count_, 4096, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        std::array<int64_t, kInputs> at{};
        int64_t rest = i;
        for (int d = dims_.rank() - 1; d >= 0; --d) {
          for (size_t k = 0; k < kInputs; ++k) at[k] += rest % dims_[d] * strides_[k][d];
          rest /= dims_[d];
        }
        body(i, at);
      }
    });
  }

 private:
  Dims dims_;
  int64_t count_;
  std::array<Dims, kInputs> strides_{};
};

}  // namespace plimsoll::kernels
