// The checksum of TFRecord files and checkpoints (Castagnoli), by the processor's own instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll {

// Of what was summed before followed by these bytes.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The same by a table, for processors without the instruction.
uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t before = 0);

// As TFRecord files store it: a checksum of bytes that hold checksums would be weak.
inline uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const uint32_t sum = crc32c(bytes);
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

}  // namespace plimsoll
