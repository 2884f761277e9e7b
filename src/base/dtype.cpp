#include <plimsoll/types.h>

#include <array>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

struct TypeFacts {
  std::string_view name;
  Bytes size;
};
constexpr std::array<TypeFacts, 8> kFacts{
    {{"f32", 4}, {"f16", 2}, {"bf16", 2}, {"i32", 4}, {"i64", 8}, {"u8", 1}, {"i8", 1}, {"bool", 1}}};

}  // namespace

Bytes size_of(DType dtype) { return kFacts[static_cast<size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return kFacts[static_cast<size_t>(dtype)].name; }

DType parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kFacts.size(); ++i)
    if (kFacts[i].name == name) return static_cast<DType>(i);
  throw Error(fmt::format("'{}' is not an element type; known are f32 f16 bf16 i32 i64 u8 i8 bool", name));
}

std::string to_string(DTypes types) {
  std::string text;
  std::string_view last;
  for (const DType type : kEveryType) {
    if (!types.has(type)) continue;
    if (!last.empty()) text += (text.empty() ? "" : ", ") + std::string(last);
    last = name_of(type);
  }
  return text.empty() ? std::string(last) : text + " or " + std::string(last);
}

}  // namespace plimsoll
