#include "import/blocks.h"

#include "base/half.h"
#include "base/little_endian.h"

namespace plimsoll::import {
namespace {

float half_at(const std::byte* place) { return from_f16(little_endian_at<uint16_t>(place)); }
unsigned byte_at(const std::byte* place) { return std::to_integer<unsigned>(*place); }
int signed_at(const std::byte* place) { return little_endian_at<int8_t>(place); }

// 32 numbers of 4 bits, or 5 with their high bits apart: the low halves of 16 bytes, then the high halves.
template <bool kHasMinimum, bool kHasHighBits>
void unpack_nibbles(const std::byte* from, float* into) {
  const float scale = half_at(from);
  const float minimum = kHasMinimum ? half_at(from + 2) : 0.0F;
  from += kHasMinimum ? 4 : 2;
  const uint32_t high = kHasHighBits ? little_endian_at<uint32_t>(from) : 0;
  from += kHasHighBits ? 4 : 0;
  constexpr int kZero = kHasMinimum ? 0 : kHasHighBits ? 16 : 8;
  for (int i = 0; i < 16; ++i) {
    const unsigned low = byte_at(from + i);
    const auto first = static_cast<int>((low & 15U) | (high >> i & 1U) << 4);
    const auto second = static_cast<int>(low >> 4 | (high >> (i + 16) & 1U) << 4);
    into[i] = static_cast<float>(first - kZero) * scale;
    into[i + 16] = static_cast<float>(second - kZero) * scale;
    if constexpr (kHasMinimum) {  // without one, adding zero would turn -0 into 0
      into[i] += minimum;
      into[i + 16] += minimum;
    }
  }
}

// Scale and minimum of a group of 32, 6 bits each, of 12 bytes for 8 groups.
struct Group {
  float scale, minimum;
};
Group group_of(const std::byte* packed, int group, float scale, float minimum) {
  const auto at = [&](int i) { return byte_at(packed + i); };
  if (group < 4)
    return {scale * static_cast<float>(at(group) & 63U), minimum * static_cast<float>(at(group + 4) & 63U)};
  const unsigned scale_bits = (at(group + 4) & 15U) | (at(group - 4) >> 6) << 4;
  const unsigned minimum_bits = at(group + 4) >> 4 | (at(group) >> 6) << 4;
  return {scale * static_cast<float>(scale_bits), minimum * static_cast<float>(minimum_bits)};
}

// 256 numbers in groups of 32: of each 32 bytes the low halves, then the high halves.
template <bool kHasHighBits>
void unpack_groups(const std::byte* from, float* into) {
  const float scale = half_at(from), minimum = half_at(from + 2);
  const std::byte* const packed = from + 4;
  const std::byte* const high = from + 16;
  const std::byte* low = from + (kHasHighBits ? 48 : 16);
  for (int group = 0; group < 8; ++group) {
    const Group facts = group_of(packed, group, scale, minimum);
    for (int i = 0; i < 32; ++i) {
      unsigned bits = byte_at(low + i) >> (group % 2 * 4) & 15U;
      if (kHasHighBits) bits |= (byte_at(high + i) >> group & 1U) << 4;
      into[group * 32 + i] = facts.scale * static_cast<float>(bits) - facts.minimum;
    }
    if (group % 2 == 1) low += 32;
  }
}

void unpack_six_bits(const std::byte* from, float* into) {
  const std::byte *low = from, *high = from + 128, *scales = from + 192;
  const float scale = half_at(from + 208);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i)
      for (int part = 0; part < 4; ++part) {
        const unsigned four = byte_at(low + i + part % 2 * 32) >> (part / 2 * 4) & 15U;
        const unsigned two = byte_at(high + i) >> (2 * part) & 3U;
        const float group = scale * static_cast<float>(signed_at(scales + i / 16 + 2 * part));
        into[part * 32 + i] = group * static_cast<float>(static_cast<int>(four | two << 4) - 32);
      }
    into += 128;
    low += 64;
    high += 32;
    scales += 8;
  }
}

void unpack_bytes(const std::byte* from, float* into) {
  const float scale = half_at(from);
  for (int i = 0; i < 32; ++i) into[i] = static_cast<float>(signed_at(from + 2 + i)) * scale;
}

void unpack_block(BlockType type, const std::byte* from, float* into) {
  switch (type) {
    case BlockType::F32:
      *into = little_endian_at<float>(from);
      return;
    case BlockType::F16:
      *into = half_at(from);
      return;
    case BlockType::BF16:
      *into = from_bf16(little_endian_at<uint16_t>(from));
      return;
    case BlockType::Q4_0:
      return unpack_nibbles<false, false>(from, into);
    case BlockType::Q4_1:
      return unpack_nibbles<true, false>(from, into);
    case BlockType::Q5_0:
      return unpack_nibbles<false, true>(from, into);
    case BlockType::Q5_1:
      return unpack_nibbles<true, true>(from, into);
    case BlockType::Q8_0:
      return unpack_bytes(from, into);
    case BlockType::Q4_K:
      return unpack_groups<false>(from, into);
    case BlockType::Q5_K:
      return unpack_groups<true>(from, into);
    case BlockType::Q6_K:
      return unpack_six_bits(from, into);
  }
}

}  // namespace

std::optional<BlockFacts> block_facts(uint32_t type) {
  switch (static_cast<BlockType>(type)) {
    case BlockType::F32:
      return BlockFacts{"F32", 1, 4};
    case BlockType::F16:
      return BlockFacts{"F16", 1, 2};
    case BlockType::BF16:
      return BlockFacts{"BF16", 1, 2};
    case BlockType::Q4_0:
      return BlockFacts{"Q4_0", 32, 18};
    case BlockType::Q4_1:
      return BlockFacts{"Q4_1", 32, 20};
    case BlockType::Q5_0:
      return BlockFacts{"Q5_0", 32, 22};
    case BlockType::Q5_1:
      return BlockFacts{"Q5_1", 32, 24};
    case BlockType::Q8_0:
      return BlockFacts{"Q8_0", 32, 34};
    case BlockType::Q4_K:
      return BlockFacts{"Q4_K", 256, 144};
    case BlockType::Q5_K:
      return BlockFacts{"Q5_K", 256, 176};
    case BlockType::Q6_K:
      return BlockFacts{"Q6_K", 256, 210};
  }
  return std::nullopt;
}

std::string_view name_of_unread(uint32_t type) {
  constexpr std::string_view kNames[] = {"",        "",       "",        "",      "Q4_2",   "Q4_3",  "",      "",
                                         "",        "Q8_1",   "Q2_K",    "Q3_K",  "",       "",      "",      "Q8_K",
                                         "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
                                         "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M"};
  return type < std::size(kNames) ? kNames[type]
         : type == 34             ? "TQ1_0"
         : type == 35             ? "TQ2_0"
         : type == 39             ? "MXFP4"
                                  : "";
}

void unpack_blocks(BlockType type, const std::byte* from, int64_t blocks, float* into) {
  const BlockFacts facts = *block_facts(static_cast<uint32_t>(type));
  for (int64_t block = 0; block < blocks; ++block)
    unpack_block(type, from + block * facts.bytes, into + block * facts.elements);
}

}  // namespace plimsoll::import
