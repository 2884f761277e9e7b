// Unpacks a gzip file or a member of an archive once, in constant memory, into a file that can be read in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "memory/file.h"

namespace plimsoll::input {

// `length_of` computes the whole unpacked length from the first kLongestHeader unpacked bytes, and throws when they are
// no such file: a file that unpacks to more is refused before it fills the disk. Throws Error(BadData) naming `path`
// and the compressed byte where it is damaged, Error(DiskFull) naming the directory and the bytes that are needed.
memory::File inflate_to_scratch(const memory::File& packed, const std::string& path, const std::string& scratch_dir,
                                const std::function<Bytes(std::span<const std::byte> front)>& length_of);

// A file as it is, or unpacked if it is gzip, up to what the disk has free.
memory::File open_unpacked(const std::string& path, const std::string& scratch_dir);

// A deflated stretch of an archive, as its directory describes it.
struct PackedMember {
  Bytes offset = 0;
  Bytes packed_bytes = 0;
  Bytes plain_bytes = 0;
  uint32_t checksum = 0;  // crc32 of the plain bytes
};

// The same for one member of a zip archive; what unpacks to another length or checksum is refused.
memory::File inflate_member_to_scratch(const memory::File& archive, const std::string& path,
                                       const std::string& scratch_dir, const PackedMember& member);

}  // namespace plimsoll::input
