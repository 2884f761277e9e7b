#include "tokenizer/vocabulary.h"

#include <bit>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::tokenizer {
namespace {

// Ids may be this much sparser than pieces, so that one id of a billion takes no memory.
constexpr int64_t kMostGaps = 65'536;

}  // namespace

uint64_t hash_piece(std::string_view text) {
  uint64_t hash = 0x9E3779B97F4A7C15U ^ text.size();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93U;
    hash ^= hash >> 32;
  };
  size_t at = 0;
  for (uint64_t word = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    mix(word);
  }
  if (at < text.size()) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, text.size() - at);
    mix(word);
  }
  return hash;
}

void Vocabulary::add(int32_t id, std::string_view piece, const std::string& source, bool is_findable) {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{}: {}", source, what), ErrorKind::BadData);
  };
  // The table of places grows with the largest id, so ids may run ahead of the pieces by no more than that.
  if (id < 0 || id >= kMostPieces || id > 8 * pieces_ + 8 * kMostGaps)
    refuse(fmt::format("the piece with id {} is one of {} so far; ids of a vocabulary are 0, 1, 2 and so on", id,
                       pieces_ + 1));
  if (text_.size() + piece.size() > std::numeric_limits<uint32_t>::max()) refuse("its pieces have more than 4 GiB");
  const auto place = static_cast<size_t>(id);
  if (place >= places_.size()) places_.resize(place + 1);
  if (places_[place].bytes != kNoPiece) refuse(fmt::format("two pieces have the id {}", id));
  places_[place] = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(piece.size())};
  text_.append(piece);
  if (!is_findable) {
    is_hidden_.resize(std::max(is_hidden_.size(), place + 1));
    is_hidden_[place] = true;
  }
  ++pieces_;
}

void Vocabulary::finish(const std::string& source) {
  if (pieces_ == 0) throw Error(source + ": the vocabulary is empty", ErrorKind::BadData);
  if (size() > 2 * pieces_ + kMostGaps)
    throw Error(fmt::format("{}: {} pieces have ids up to {}; ids of a vocabulary are 0, 1, 2 and so on", source,
                            pieces_, size() - 1),
                ErrorKind::BadData);
  text_.shrink_to_fit();
  places_.shrink_to_fit();
  slots_.assign(std::bit_ceil(static_cast<size_t>(pieces_ + pieces_ / 2 + 2)), 0);
  for (size_t id = 0; id < places_.size(); ++id) {
    if (places_[id].bytes == kNoPiece || (id < is_hidden_.size() && is_hidden_[id])) continue;
    const std::string_view piece = this->piece(static_cast<int32_t>(id));
    size_t slot = hash_piece(piece) & mask();
    bool is_known = false;
    for (; slots_[slot] != 0 && !is_known; slot = (slot + 1) & mask())
      is_known = this->piece(slots_[slot] - 1) == piece;
    if (!is_known) slots_[slot] = static_cast<int32_t>(id) + 1;
  }
  is_hidden_ = {};
}

int32_t Vocabulary::find(std::string_view piece) const {
  if (slots_.empty()) return kNoId;
  for (size_t slot = hash_piece(piece) & mask(); slots_[slot] != 0; slot = (slot + 1) & mask())
    if (this->piece(slots_[slot] - 1) == piece) return slots_[slot] - 1;
  return kNoId;
}

Bytes Vocabulary::bytes() const {
  return static_cast<Bytes>(text_.capacity() + places_.capacity() * sizeof(Place) +
                            slots_.capacity() * sizeof(int32_t));
}

}  // namespace plimsoll::tokenizer
