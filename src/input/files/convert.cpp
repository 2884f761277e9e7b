#include "input/files/convert.h"

#include <cassert>
#include <limits>

#include <fmt/format.h>

#include "base/half.h"

namespace plimsoll::input {
namespace {

struct Half {
  uint16_t bits;
  explicit operator float() const { return from_f16(bits); }
};

struct BrainFloat {
  uint16_t bits;
  explicit operator float() const { return from_bf16(bits); }
};

template <typename From>
void to_f32(const void* input, const Conversion& conversion, void* output, int64_t elements) {
  const auto* const __restrict x = static_cast<const From*>(input);
  auto* const __restrict y = static_cast<float*>(output);
  const float scale = conversion.scale, offset = conversion.offset;
  for (int64_t i = 0; i < elements; ++i) y[i] = static_cast<float>(x[i]) * scale + offset;
}

template <typename From, typename To>
std::optional<int64_t> to_integer(const void* input, void* output, int64_t elements) {
  const auto* const x = static_cast<const From*>(input);
  auto* const y = static_cast<To*>(output);
  for (int64_t i = 0; i < elements; ++i) {
    if constexpr (sizeof(From) > sizeof(To))
      if (x[i] < std::numeric_limits<To>::min() || x[i] > std::numeric_limits<To>::max()) return i;
    y[i] = static_cast<To>(x[i]);  // NOLINT(bugprone-signed-char-misuse): i8 is a number, and its sign counts
  }
  return std::nullopt;
}

template <typename To>
std::optional<int64_t> to_integer_from(DType from, const void* input, void* output, int64_t elements) {
  switch (from) {
    case DType::U8:
    case DType::Bool:
      return to_integer<uint8_t, To>(input, output, elements);
    case DType::I8:
      return to_integer<int8_t, To>(input, output, elements);
    case DType::I32:
      return to_integer<int32_t, To>(input, output, elements);
    case DType::I64:
      return to_integer<int64_t, To>(input, output, elements);
    default:
      assert(false);
      return std::nullopt;
  }
}

}  // namespace

std::string why_not(DType from, const Conversion& conversion) {
  const bool plain = conversion.scale == 1 && conversion.offset == 0;
  if (conversion.to == DType::F32) return "";
  if (conversion.to != DType::I32 && conversion.to != DType::I64)
    return fmt::format("{} cannot become {}; ask for f32, i32 or i64", name_of(from), name_of(conversion.to));
  if (is_float(from)) return fmt::format("{} cannot become {} without loss", name_of(from), name_of(conversion.to));
  return plain ? "" : fmt::format("scale and offset need f32, not {}", name_of(conversion.to));
}

std::optional<int64_t> convert(DType from, const void* input, const Conversion& conversion, void* output,
                               int64_t elements) {
  assert(why_not(from, conversion).empty());
  if (conversion.to == DType::I32) return to_integer_from<int32_t>(from, input, output, elements);
  if (conversion.to == DType::I64) return to_integer_from<int64_t>(from, input, output, elements);
  switch (from) {
    case DType::U8:
    case DType::Bool:
      to_f32<uint8_t>(input, conversion, output, elements);
      break;
    case DType::I8:
      to_f32<int8_t>(input, conversion, output, elements);
      break;
    case DType::I32:
      to_f32<int32_t>(input, conversion, output, elements);
      break;
    case DType::I64:
      to_f32<int64_t>(input, conversion, output, elements);
      break;
    case DType::F16:
      to_f32<Half>(input, conversion, output, elements);
      break;
    case DType::F32:
      to_f32<float>(input, conversion, output, elements);
      break;
    case DType::BF16:
      to_f32<BrainFloat>(input, conversion, output, elements);
      break;
  }
  return std::nullopt;
}

}  // namespace plimsoll::input
