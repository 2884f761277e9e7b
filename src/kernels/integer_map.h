// Element-wise operators on integers that the floats of a tile would round: exact, with the same broadcasting.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/kernel.h"
#include "kernels/parallel.h"

namespace plimsoll::kernels {

// Whether floats can't hold every number of the type.
constexpr bool is_large_integer(DType dtype) { return dtype == DType::I32 || dtype == DType::I64; }

// What arithmetic is defined for.
constexpr DTypes kNumbers{DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64};

// Calls body(int32_t or int64_t).
template <class Body>
auto with_integer(DType dtype, const Body& body) {
  return dtype == DType::I32 ? body(int32_t{}) : body(int64_t{});
}

// Arithmetic that wraps around at the ends of the range.
template <class T>
constexpr T wrapped_sum(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
}
template <class T>
constexpr T wrapped_difference(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) - static_cast<std::make_unsigned_t<T>>(b));
}
template <class T>
constexpr T wrapped_product(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
}
// Rounded towards minus infinity. By zero: 0. The smallest number by -1 wraps around.
template <class T>
constexpr T floor_quotient(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return wrapped_difference(T{0}, a);
  const T quotient = static_cast<T>(a / b);
  return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
}
// a - b floor_quotient(a, b): of the sign of b. By zero: 0.
template <class T>
constexpr T floor_remainder(T a, T b) {
  if (b == 0 || b == -1) return 0;
  const T rest = static_cast<T>(a % b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}

// Walks all elements of the output in runs, with the place of each run in the inputs.
template <size_t kInputs>
class BroadcastWalk {
 public:
  using Places = std::array<int64_t, kInputs>;

  explicit BroadcastWalk(const Facts& facts) : count_(facts.out[0].count()) {
    const Dims& out = facts.out[0].dims;
    std::array<Dims, kInputs> full;
    for (size_t i = 0; i < kInputs; ++i) {
      const Dims& from = facts.in[i].dims;
      full[i] = Dims::filled(out.rank(), 0);
      int64_t stride = 1;
      for (int d = from.rank() - 1; d >= 0; --d) {
        if (from[d] != 1) full[i][d + out.rank() - from.rank()] = stride;
        stride *= from[d];
      }
    }
    // Dimensions are merged where all inputs allow it.
    for (int d = 0; d < out.rank(); ++d) {
      if (out[d] == 1) continue;
      const int last = dims_.rank() - 1;
      bool merges = last >= 0;
      for (size_t i = 0; merges && i < kInputs; ++i) merges = strides_[i][last] == full[i][d] * out[d];
      if (merges)
        dims_[last] *= out[d];
      else
        dims_.push_back(out[d]);
      for (size_t i = 0; i < kInputs; ++i) {
        if (merges)
          strides_[i][last] = full[i][d];
        else
          strides_[i].push_back(full[i][d]);
      }
    }
    if (!dims_.empty()) return;
    dims_.push_back(1);
    for (Dims& strides : strides_) strides.push_back(0);
  }

  // Calls body(index in the output, how many elements, indices in the inputs, steps there: 0 or 1).
  template <class Body>
  void run(const Body& body) const {
    const int inner = dims_.rank() - 1;
    Places steps;
    for (size_t k = 0; k < kInputs; ++k) steps[k] = strides_[k][inner];
    parallel_for(count_, 4096, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last;) {
        Places at{};
        int64_t rest = i;
        for (int d = inner; d >= 0; --d) {
          for (size_t k = 0; k < kInputs; ++k) at[k] += rest % dims_[d] * strides_[k][d];
          rest /= dims_[d];
        }
        const int64_t length = std::min(last - i, dims_[inner] - i % dims_[inner]);
        body(i, length, at, steps);
        i += length;
      }
    });
  }

 private:
  Dims dims_;
  int64_t count_;
  std::array<Dims, kInputs> strides_{};
};

// y = f(x)
template <class T, class Result = T, class Function>
std::shared_ptr<Kernel> make_integer_map(const Facts& facts, const Function& f) {
  const int64_t count = facts.out[0].count();
  return make_kernel([=](const Args& args) {
    const T* x = args.input<T>(0);
    auto* y = args.output<Result>(0);
    parallel_for(count, 16384, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) y[i] = f(x[i]);
    });
  });
}

// y = f(a, b), broadcast.
template <class T, class Result = T, class Function>
std::shared_ptr<Kernel> make_integer_pairs(const Facts& facts, const Function& f) {
  const BroadcastWalk<2> walk(facts);
  return make_kernel([=](const Args& args) {
    const T* as = args.input<T>(0);
    const T* bs = args.input<T>(1);
    auto* ys = args.output<Result>(0);
    walk.run([&](int64_t i, int64_t count, const auto& at, const auto& steps) {
      const T* a = as + at[0];
      const T* b = bs + at[1];
      Result* y = ys + i;
      const T first = *a, second = *b;
      if (steps[0] != 0 && steps[1] != 0) {
        for (int64_t k = 0; k < count; ++k) y[k] = f(a[k], b[k]);
      } else if (steps[0] != 0) {
        for (int64_t k = 0; k < count; ++k) y[k] = f(a[k], second);
      } else if (steps[1] != 0) {
        for (int64_t k = 0; k < count; ++k) y[k] = f(first, b[k]);
      } else {
        for (int64_t k = 0; k < count; ++k) y[k] = f(first, second);
      }
    });
  });
}

}  // namespace plimsoll::kernels
