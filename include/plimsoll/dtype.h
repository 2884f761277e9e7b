// The element types of tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <plimsoll/bytes.h>

namespace plimsoll {

enum class DType : uint8_t { F32, F16, BF16, I32, I64, U8, I8, Bool };

Bytes size_of(DType dtype);
std::string_view name_of(DType dtype);     // "f32"
DType parse_dtype(std::string_view name);  // throws Error
constexpr bool is_float(DType dtype) { return dtype <= DType::BF16; }

// The element type of numbers of a C++ type; those that no tensor can have don't compile.
template <class T>
constexpr bool is_element_type() {
  if constexpr (std::is_integral_v<T>)
    return !std::is_same_v<T, char> && !std::is_same_v<T, char8_t> && (std::is_signed_v<T> || sizeof(T) == 1);
  return std::is_same_v<T, float>;
}
template <class T>
concept Element = is_element_type<T>() &&(sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8);

template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::F32;
  if constexpr (std::is_same_v<T, bool>) return DType::Bool;
  if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? DType::I8 : DType::U8;
  return sizeof(T) == 4 ? DType::I32 : DType::I64;
}

// A set of element types.
class DTypes {
 public:
  constexpr DTypes() = default;
  constexpr DTypes(DType one) : bits_(1U << static_cast<unsigned>(one)) {}  // NOLINT(google-explicit-constructor)
  constexpr DTypes(std::initializer_list<DType> types) {
    for (const DType type : types) bits_ |= 1U << static_cast<unsigned>(type);
  }
  constexpr bool has(DType type) const { return (bits_ >> static_cast<unsigned>(type) & 1U) != 0; }

 private:
  uint32_t bits_ = 0;
};

constexpr DType kEveryType[] = {DType::F32, DType::F16, DType::BF16, DType::I32,
                                DType::I64, DType::U8,  DType::I8,   DType::Bool};
constexpr DTypes kFloats{DType::F32, DType::F16, DType::BF16};
constexpr DTypes kAnyType{DType::F32, DType::F16, DType::BF16, DType::I32,
                          DType::I64, DType::U8,  DType::I8,   DType::Bool};
constexpr DTypes kWholeTypes{DType::I32, DType::I64, DType::U8, DType::I8, DType::Bool};
std::string to_string(DTypes types);  // "f32, f16 or bf16"

}  // namespace plimsoll
