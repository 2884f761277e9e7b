// The samples of an array that lies in an open file, alone or as part of an archive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "input/files/source.h"
#include "input/files/stored_array.h"
#include "memory/file.h"

namespace plimsoll::input {

// What all bytes of a stretch of a file must sum up to.
struct FileChecksum {
  Bytes offset = 0, bytes = 0;
  uint32_t crc32 = 0;
};

// `layout` counts its offset from the start of `file`. `name` is what errors show. With a checksum
// the first read goes through that stretch once, in pieces; where the sum is another, every read throws Error(BadData).
std::unique_ptr<Source> make_array_source(std::string name, memory::File file, StoredArray layout,
                                          std::optional<FileChecksum> checksum = std::nullopt);

}  // namespace plimsoll::input
