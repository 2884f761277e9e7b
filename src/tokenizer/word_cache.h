// Ids of words that occurred before, in memory of a fixed size.
#pragma once

#include <cstring>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "tokenizer/vocabulary.h"

namespace plimsoll::tokenizer {

class WordCache {
 public:
  // Each word has one place, which a newer word takes over.
  static constexpr size_t kWords = 16'384;
  static constexpr size_t kLongestWord = 30;
  static constexpr size_t kMostIds = 8;

  struct Entry {
    uint8_t bytes = 0, count = 0;  // no word has no bytes
    char word[kLongestWord];
    int32_t ids[kMostIds];
  };

  // Where the word stands or would stand.
  Entry& place_of(std::string_view word) {
    if (entries_.empty()) entries_.resize(kWords);
    return entries_[hash_piece(word) % kWords];
  }
  static bool holds(const Entry& entry, std::string_view word) {
    return entry.bytes == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
  }
  static void put(Entry& entry, std::string_view word, const int32_t* ids, size_t count) {
    if (word.size() > kLongestWord || count > kMostIds) return;
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.word, word.data(), word.size());
    std::memcpy(entry.ids, ids, count * sizeof(int32_t));
  }
  Bytes bytes() const { return static_cast<Bytes>(entries_.capacity() * sizeof(Entry)); }

 private:
  std::vector<Entry> entries_;
};
static_assert(sizeof(WordCache::Entry) == 64);

}  // namespace plimsoll::tokenizer
