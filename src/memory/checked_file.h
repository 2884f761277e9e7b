// A file of a directory with what tells whether it is whole.
#pragma once

#include <cstdint>
#include <string>

#include <plimsoll/types.h>

namespace plimsoll::memory {

struct CheckedFile {
  std::string name;
  Bytes bytes = 0;
  uint32_t checksum = 0;  // crc32c
  bool operator==(const CheckedFile&) const = default;
};

}  // namespace plimsoll::memory
