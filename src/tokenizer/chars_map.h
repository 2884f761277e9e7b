// The compiled map of characters of a SentencePiece model: sequences of bytes and what replaces them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::tokenizer {

class CharsMap {
 public:
  // `bytes`: the size of a trie in bytes, the trie (double array, as Darts writes it), and texts that end by zeros.
  // Throws Error(BadData) for another form.
  CharsMap(std::string_view bytes, bool is_longest, const std::string& source);
  void apply(std::string& text) const;
  Bytes bytes() const { return static_cast<Bytes>(units_.capacity() * sizeof(uint32_t) + texts_.capacity()); }

 private:
  // The longest (or the first, shortest) begin of `text` in the map: its bytes, and what replaces it.
  struct Found {
    size_t bytes = 0;
    std::string_view text;
  };
  Found find(std::string_view text, bool wants_longest) const;

  std::vector<uint32_t> units_;
  std::string texts_;
  bool is_longest_;
};

}  // namespace plimsoll::tokenizer
