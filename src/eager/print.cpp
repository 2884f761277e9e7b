// Tensors as text: type and shortened values.
#include <cstring>
#include <ostream>

#include <fmt/format.h>

#include <plimsoll/eager.h>
#include <plimsoll/error.h>
#include "base/half.h"
#include "eager/engine.h"

namespace plimsoll {
namespace {

constexpr int64_t kAtEachEnd = 3;

std::string text_of(DType dtype, const std::byte* at) {
  const auto as = [&]<class T>(T number) {
    std::memcpy(&number, at, sizeof number);
    return number;
  };
  switch (dtype) {
    case DType::F32:
      return fmt::format("{:.6g}", as(0.0F));
    case DType::F16:
      return fmt::format("{:.4g}", from_f16(as(uint16_t{})));
    case DType::BF16:
      return fmt::format("{:.4g}", from_bf16(as(uint16_t{})));
    case DType::I32:
      return fmt::to_string(as(int32_t{}));
    case DType::I64:
      return fmt::to_string(as(int64_t{}));
    case DType::U8:
      return fmt::to_string(static_cast<int>(as(uint8_t{})));
    case DType::I8:
      return fmt::to_string(static_cast<int>(as(int8_t{})));
    case DType::Bool:
      return as(uint8_t{}) != 0 ? "true" : "false";
  }
  throw Error("unknown element type");
}

void print_values(std::string& text, const TensorType& type, int axis, const std::byte*& at) {
  if (axis == type.shape.rank()) {
    text += text_of(type.dtype, at);
    at += size_of(type.dtype);
    return;
  }
  Bytes each = size_of(type.dtype);
  for (int i = axis + 1; i < type.shape.rank(); ++i) each *= type.shape[i].count();
  const int64_t count = type.shape[axis].count();
  text += '[';
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    if (count > 2 * kAtEachEnd && i == kAtEachEnd) {
      text += "..., ";
      at += (count - 2 * kAtEachEnd) * each;
      i = count - kAtEachEnd;
    }
    print_values(text, type, axis + 1, at);
  }
  text += ']';
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.is_set()) return "unset tensor";
  std::string text = to_string(tensor.type());
  if (!tensor.is_eager()) return fmt::format("{} '{}' of a graph", text, tensor.name());
  if (tensor.held()->recorder == nullptr) return text + " of an Eager that has ended";
  const auto* at = static_cast<const std::byte*>(tensor.held()->recorder->read(*tensor.held()));
  text += ' ';
  print_values(text, tensor.type(), 0, at);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace plimsoll
