// Memory of eager values: blocks taken from a line, given back, and kept for the next value of the same size while the
// line has room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include <plimsoll/memory_line.h>

namespace plimsoll::eager {

// Aligned to kAlignment and readable to the next multiple of it. Moved, never copied.
struct Block {
  std::byte* data = nullptr;
  Bytes bytes = 0;  // that it takes of the line
  bool is_set() const { return data != nullptr; }
};

class MemoryPool {
 public:
  static constexpr Bytes kSlabBytes = 64 * KiB;  // for small values of one size

  explicit MemoryPool(const MemoryLine& line) : line_(line) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // What a value of that size takes. Small values share pages: they count as nothing until one more slab is needed.
  static Bytes block_bytes(Bytes bytes);
  // Unset when the line has no room for it; kept blocks of other sizes are given up first.
  Block take(Bytes bytes);
  void give_back(Block block) noexcept;

  Bytes kept_bytes() const { return kept_bytes_; }
  // Gives kept blocks up until so many bytes of the line are free, or none is left.
  void give_up_kept(Bytes wanted_free) noexcept;

 private:
  struct Large {
    Block block;
    Reservation held;
  };
  static constexpr Bytes kLargestSmall = 32 * KiB;
  static constexpr Bytes kLeastKept = 2 * MiB;
  static size_t class_of(Bytes bytes);

  Block take_small(Bytes bytes);
  bool add_slab(size_t size_class);
  void unmap(Large large) noexcept;
  void give_up(std::multimap<Bytes, Large>::iterator kept) noexcept;
  void add_large(Bytes bytes) {
    large_bytes_ += bytes;
    most_large_bytes_ = std::max(most_large_bytes_, large_bytes_);
  }

  MemoryLine line_;
  std::map<std::byte*, Large> used_;  // by address
  std::multimap<Bytes, Large> kept_;  // by size
  std::vector<std::vector<std::byte*>> free_small_ = std::vector<std::vector<std::byte*>>(16);
  std::vector<Large> slabs_;
  Bytes kept_bytes_ = 0, large_bytes_ = 0, most_large_bytes_ = 0;
};

}  // namespace plimsoll::eager
