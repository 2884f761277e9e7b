// Numbers of little-endian file formats, at any alignment.
#pragma once

#include <cstddef>
#include <cstring>

namespace plimsoll {

template <typename Number>
Number little_endian_at(const std::byte* place) {
  Number number;
  std::memcpy(&number, place, sizeof number);
  return number;
}

}  // namespace plimsoll
