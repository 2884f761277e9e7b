// The checksum of TFRecord files and checkpoints (Castagnoli), by the processor's own instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll {

// The checksum of all bytes so far: those whose checksum is `before`, then `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The same by a table, for processors without the instruction.
uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t before = 0);

// Masked, as TFRecord files store it: a plain CRC of bytes that contain their own CRC is weak.
inline uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const uint32_t sum = crc32c(bytes);
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

}  // namespace plimsoll
