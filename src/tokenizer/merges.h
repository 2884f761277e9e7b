// The pairs that BPE joins: for two neighbouring pieces, the rank of their merge and the piece that it makes.
#pragma once

#include <cstdint>
#include <vector>

#include <plimsoll/types.h>
#include "tokenizer/vocabulary.h"

namespace plimsoll::tokenizer {

struct Merge {
  uint32_t rank = kNever;
  int32_t piece = kNoId;
  static constexpr uint32_t kNever = 0xFFFFFFFFU;  // of a pair that is not joined
};

class MergeTable {
 public:
  // Room for so many pairs.
  explicit MergeTable(size_t pairs = 0);
  // A pair that is added again gets the new merge.
  void add(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask()) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kFree) return {};
    }
  }
  Bytes bytes() const { return static_cast<Bytes>(slots_.capacity() * sizeof(Slot)); }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // ids are below 2^24
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15U) >> shift_); }
  size_t mask() const { return slots_.size() - 1; }

  std::vector<Slot> slots_;
  int shift_ = 0;
};

}  // namespace plimsoll::tokenizer
