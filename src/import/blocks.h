// Blocks of packed weights as GGUF files hold them, and how they become f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <plimsoll/types.h>

namespace plimsoll::import {

// By the numbers of the format.
enum class BlockType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30,
};

struct BlockFacts {
  std::string_view name;
  int64_t elements = 1;
  Bytes bytes = 0;
};

// Unset: a type that is not read.
std::optional<BlockFacts> block_facts(uint32_t type);
// What llama.cpp calls a type that is not read; empty: nobody knows it.
std::string_view name_of_unread(uint32_t type);

void unpack_blocks(BlockType type, const std::byte* from, int64_t blocks, float* into);

}  // namespace plimsoll::import
