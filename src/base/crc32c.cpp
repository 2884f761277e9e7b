#include "base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "base/little_endian.h"

namespace plimsoll {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  constexpr uint32_t kPolynomial = 0x82f63b78;
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t sum = i;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1U) != 0 ? kPolynomial : 0);
    tables[0][i] = sum;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xffU];
  return tables;
}

constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(std::span<const std::byte> bytes, uint32_t before) {
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  uint64_t sum = ~before;
  for (; end - at >= 8; at += 8) sum = _mm_crc32_u64(sum, little_endian_at<uint64_t>(at));
  auto rest = static_cast<uint32_t>(sum);
  for (; at < end; ++at) rest = _mm_crc32_u8(rest, std::to_integer<uint8_t>(*at));
  return ~rest;
}
#endif

}  // namespace

uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t before) {
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  uint32_t sum = ~before;
  for (; end - at >= 8; at += 8) {
    const uint64_t word = little_endian_at<uint64_t>(at) ^ sum;
    sum = 0;
    for (size_t k = 0; k < 8; ++k) sum ^= kTables[7 - k][word >> (8 * k) & 0xffU];
  }
  for (; at < end; ++at) sum = sum >> 8 ^ kTables[0][(sum ^ std::to_integer<uint32_t>(*at)) & 0xffU];
  return ~sum;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

}  // namespace plimsoll
