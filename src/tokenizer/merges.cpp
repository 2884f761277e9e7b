#include "tokenizer/merges.h"

#include <bit>

namespace plimsoll::tokenizer {

MergeTable::MergeTable(size_t pairs) : slots_(std::bit_ceil(pairs + pairs / 2 + 2)) {
  shift_ = 64 - std::countr_zero(slots_.size());
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t slot = slot_of(key);
  while (slots_[slot].key != kFree && slots_[slot].key != key) slot = (slot + 1) & mask();
  slots_[slot] = {key, merge};
}

}  // namespace plimsoll::tokenizer
