// Numbers for the kernels' tests.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace plimsoll::testing {

// Evenly between -1 and 1; the same for the same key.
inline std::vector<float> draw(int64_t count, uint64_t key) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(unit_real(mix_bits(key, i)) * 2 - 1);
  return numbers;
}

}  // namespace plimsoll::testing
