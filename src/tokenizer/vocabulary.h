// The pieces of a vocabulary and their ids: one block of text and a table of hashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::tokenizer {

constexpr int32_t kNoId = -1;
// More is no vocabulary: the largest ones have about 300,000 pieces.
constexpr int64_t kMostPieces = int64_t{1} << 24;

class Vocabulary {
 public:
  // Pieces may come in any order of ids. `is_findable` false: the piece is known by its id alone. The first of equal
  // texts is found. Throws Error(BadData) for an id twice or out of range; messages begin with `source`.
  void add(int32_t id, std::string_view piece, const std::string& source, bool is_findable = true);
  // After the last add(). Throws Error(BadData) where most ids up to the largest have no piece.
  void finish(const std::string& source);

  int32_t find(std::string_view piece) const;  // kNoId: none
  // Ids run from 0 to size() - 1; some of them may have no piece.
  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  int64_t pieces() const { return pieces_; }
  bool has(int64_t id) const { return id >= 0 && id < size() && places_[static_cast<size_t>(id)].bytes != kNoPiece; }
  std::string_view piece(int32_t id) const {
    const Place& place = places_[static_cast<size_t>(id)];
    return place.bytes == kNoPiece ? std::string_view() : std::string_view(text_).substr(place.at, place.bytes);
  }
  Bytes bytes() const;  // held

 private:
  static constexpr uint32_t kNoPiece = 0xFFFFFFFFU;
  struct Place {
    uint32_t at = 0, bytes = kNoPiece;
  };
  size_t mask() const { return slots_.size() - 1; }

  std::string text_;
  std::vector<Place> places_;
  std::vector<bool> is_hidden_;
  std::vector<int32_t> slots_;  // ids + 1, 0: free; a power of two of them
  int64_t pieces_ = 0;
};

// A quick hash of short texts.
uint64_t hash_piece(std::string_view text);

}  // namespace plimsoll::tokenizer
