// A number for the contents of data: its length, and some of its bytes. Where the data lies does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <plimsoll/types.h>
#include "memory/file.h"

namespace plimsoll::input {

// So many pieces are looked at, spread evenly from the first byte to the last; of shorter data, all of it.
constexpr int64_t kHashedPieces = 16;
constexpr Bytes kHashedPiece = 4 * KiB;

// A stretch of a file. What can't be read counts as other data, and is no error.
uint64_t hash_sampled(const memory::File& file, Bytes offset, Bytes bytes, const std::string& path);
uint64_t hash_sampled(std::span<const std::byte> bytes);

}  // namespace plimsoll::input
