#include "weights/finite.h"

#include <cstdint>
#include <cstring>

namespace plimsoll::weights {
namespace {

template <class Word>
bool has_all_ones(std::span<const std::byte> bytes, Word exponent) {
  const size_t count = bytes.size() / sizeof(Word);
  bool found = false;
  for (size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof word);
    found |= (word & exponent) == exponent;
  }
  return found;
}

}  // namespace

// An infinity or a NaN has an exponent of ones only.
bool is_finite(DType dtype, std::span<const std::byte> numbers) {
  if (dtype == DType::F32) return !has_all_ones<uint32_t>(numbers, 0x7f80'0000U);
  if (dtype == DType::F16) return !has_all_ones<uint16_t>(numbers, 0x7c00U);
  if (dtype == DType::BF16) return !has_all_ones<uint16_t>(numbers, 0x7f80U);
  return true;
}

}  // namespace plimsoll::weights
