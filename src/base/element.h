// One number as the bytes of an element of any type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <plimsoll/types.h>

namespace plimsoll {

struct ElementBytes {
  std::array<std::byte, 8> bytes{};
  Bytes size = 0;
};

// f32 rounds the number; any other type must hold it exactly, and f16 and bf16 take only 0: else the result is empty.
std::optional<ElementBytes> element_bytes(DType dtype, double value);

// `to` may lie anywhere, aligned or not.
void fill_elements(void* to, int64_t count, const ElementBytes& element);

}  // namespace plimsoll
