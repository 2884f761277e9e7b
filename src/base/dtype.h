// The element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace plimsoll {

enum class DType : uint8_t { F32, F16, BF16, I32, I64, U8, I8, Bool };

Bytes size_of(DType dtype);
std::string_view name_of(DType dtype);     // "f32"
DType parse_dtype(std::string_view name);  // throws Error
constexpr bool is_float(DType dtype) { return dtype <= DType::BF16; }

}  // namespace plimsoll
