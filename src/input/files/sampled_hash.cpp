#include "input/files/sampled_hash.h"

#include <algorithm>
#include <array>
#include <functional>

#include <plimsoll/error.h>
#include "base/crc32c.h"
#include "base/random.h"

namespace plimsoll::input {
namespace {

// `use` gets the place and the length of each piece.
void for_each_piece(Bytes bytes, const std::function<void(Bytes at, Bytes length)>& use) {
  if (bytes <= kHashedPieces * kHashedPiece) {
    for (Bytes at = 0; at < bytes; at += kHashedPiece) use(at, std::min(kHashedPiece, bytes - at));
    return;
  }
  const Bytes gap = (bytes - kHashedPiece) / (kHashedPieces - 1);
  for (int64_t i = 0; i + 1 < kHashedPieces; ++i) use(i * gap, kHashedPiece);
  use(bytes - kHashedPiece, kHashedPiece);
}

}  // namespace

uint64_t hash_sampled(const memory::File& file, Bytes offset, Bytes bytes, const std::string& path) {
  uint64_t hash = mix_bits(static_cast<uint64_t>(bytes));
  std::array<std::byte, kHashedPiece> piece;
  try {
    for_each_piece(bytes, [&](Bytes at, Bytes length) {
      const Bytes got = file.read_some(offset + at, length, piece.data(), path);
      hash = mix_bits(hash, crc32c(std::span(piece).first(static_cast<size_t>(got))));
    });
  } catch (const Error&) {
    hash = mix_bits(hash, 1);
  }
  return hash;
}

uint64_t hash_sampled(std::span<const std::byte> bytes) {
  const auto size = static_cast<Bytes>(bytes.size());
  uint64_t hash = mix_bits(static_cast<uint64_t>(size));
  for_each_piece(size, [&](Bytes at, Bytes length) {
    hash = mix_bits(hash, crc32c(bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(length))));
  });
  return hash;
}

}  // namespace plimsoll::input
