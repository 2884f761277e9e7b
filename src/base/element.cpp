#include "base/element.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace plimsoll {
namespace {

template <class T>
ElementBytes bytes_of(T value) {
  ElementBytes element{.size = sizeof value};
  std::memcpy(element.bytes.data(), &value, sizeof value);
  return element;
}

template <class T>
std::optional<ElementBytes> integer(double value) {
  // One past the maximum: a double holds that power of two exactly, but not the largest i64.
  constexpr double kEnd = 2.0 * static_cast<double>(uint64_t{1} << (std::numeric_limits<T>::digits - 1));
  const bool is_held = value >= static_cast<double>(std::numeric_limits<T>::min()) && value < kEnd;
  if (!is_held || value != std::trunc(value)) return std::nullopt;
  return bytes_of(static_cast<T>(value));
}

template <class T>
void fill_as(void* to, int64_t count, const ElementBytes& element) {
  auto* const bytes = static_cast<std::byte*>(to);
  T value;
  std::memcpy(&value, element.bytes.data(), sizeof value);
  for (int64_t i = 0; i < count; ++i) std::memcpy(bytes + i * int64_t{sizeof value}, &value, sizeof value);
}

}  // namespace

std::optional<ElementBytes> element_bytes(DType dtype, double value) {
  switch (dtype) {
    case DType::F32:
      return bytes_of(static_cast<float>(value));
    case DType::I32:
      return integer<int32_t>(value);
    case DType::I64:
      return integer<int64_t>(value);
    case DType::I8:
      return integer<int8_t>(value);
    case DType::U8:
      return integer<uint8_t>(value);
    case DType::Bool:
      return value == 0 || value == 1 ? integer<uint8_t>(value) : std::nullopt;
    case DType::F16:
    case DType::BF16:
      break;
  }
  if (value != 0) return std::nullopt;
  return bytes_of(uint16_t{0});
}

void fill_elements(void* to, int64_t count, const ElementBytes& element) {
  switch (element.size) {
    case 1:
      return fill_as<uint8_t>(to, count, element);
    case 2:
      return fill_as<uint16_t>(to, count, element);
    case 4:
      return fill_as<uint32_t>(to, count, element);
    default:
      return fill_as<uint64_t>(to, count, element);
  }
}

}  // namespace plimsoll
