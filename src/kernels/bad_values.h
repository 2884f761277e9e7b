// Labels and rows outside of their range: threads find them, the kernel reports the first of them in the step's status.
#pragma once

#include <atomic>
#include <limits>

#include "kernels/kernel.h"

namespace plimsoll::kernels {

// The smallest index that any thread found, whatever their number and order.
class FirstBad {
 public:
  void found(int64_t index) noexcept {
    int64_t least = index_.load(std::memory_order_relaxed);
    while (index < least && !index_.compare_exchange_weak(least, index, std::memory_order_relaxed)) {
    }
  }

  // Call after the parallel loop. `values` is input `input` of the kernel, which must be in [0, end).
  template <class T>
  void report(const Args& args, const char* what, int input, const T* values, int64_t end) const noexcept {
    const int64_t index = index_.load(std::memory_order_relaxed);
    if (index != kNone) args.report({what, input, index, static_cast<int64_t>(values[index]), end});
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> index_{kNone};
};

// For kernels that learn only how many were bad: looks for the first of them.
inline void report_bad_rows(const Args& args, int input, const int32_t* rows, int64_t count,
                            int64_t table_rows) noexcept {
  for (int64_t i = 0; i < count; ++i)
    if (rows[i] < 0 || rows[i] >= table_rows) return args.report({"row", input, i, rows[i], table_rows});
}

}  // namespace plimsoll::kernels
