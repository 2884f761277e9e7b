// The members of a zip archive, and where their bytes lie in the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <plimsoll/types.h>
#include "memory/file.h"

namespace plimsoll::input {

struct ZipMember {
  std::string name;
  Bytes header_offset = 0;  // of the local header, which stands before the bytes
  Bytes packed_bytes = 0;
  Bytes plain_bytes = 0;
  uint32_t checksum = 0;  // crc32 of the plain bytes
  bool is_deflated = false;
};

// A directory of more than this is refused, so that a damaged archive takes no more memory.
constexpr Bytes kLongestZipDirectory = MiB;

// Reads the directory at the end of the file, also of archives beyond 4 GiB. Throws Error(BadData) that names the
// place.
std::vector<ZipMember> list_zip(const memory::File& file, const std::string& path);

// Where the bytes of a member start. Throws Error(BadData) when they do not lie within the file.
Bytes find_zip_data(const memory::File& file, const ZipMember& member, const std::string& path);

}  // namespace plimsoll::input
