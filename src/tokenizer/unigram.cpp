// Unigram: the cut of a word whose pieces have the largest sum of scores (Viterbi).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "tokenizer/model.h"

namespace plimsoll::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score

// Pieces by their bytes. A node's children stand in one table of hashes for all nodes.
class Trie {
 public:
  Trie(const Vocabulary& vocabulary, const std::vector<bool>& is_usable) {
    Bytes edges = 0;
    for (int32_t id = 0; id < vocabulary.size(); ++id)
      if (is_usable[static_cast<size_t>(id)]) edges += static_cast<Bytes>(vocabulary.piece(id).size());
    slots_.resize(std::bit_ceil(static_cast<size_t>(edges + edges / 2 + 2)));
    shift_ = 64 - std::countr_zero(slots_.size());
    pieces_.push_back(kNoId);
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (!is_usable[static_cast<size_t>(id)]) continue;
      uint32_t node = 0;
      for (const char byte : vocabulary.piece(id)) node = add_child(node, byte);
      if (node != 0 && pieces_[node] == kNoId) pieces_[node] = id;
    }
    pieces_.shrink_to_fit();
    for (int byte = 0; byte < 256; ++byte) first_[byte] = child(0, static_cast<char>(byte));
  }
  // Children of the root, which every place of a text asks for.
  uint32_t first(char byte) const { return first_[static_cast<unsigned char>(byte)]; }

  static constexpr uint32_t kNone = 0;
  uint32_t child(uint32_t node, char byte) const { return slots_[find(node, byte)].child; }
  int32_t piece(uint32_t node) const { return pieces_[node]; }
  Bytes bytes() const {
    return static_cast<Bytes>(slots_.capacity() * sizeof(Slot) + pieces_.capacity() * sizeof(int32_t));
  }

 private:
  struct Slot {
    uint32_t node = 0;
    unsigned char byte = 0;
    uint32_t child = kNone;
  };
  // Of the edge, or where it would stand.
  size_t find(uint32_t node, char byte) const {
    const auto wanted = static_cast<unsigned char>(byte);
    const uint64_t key = uint64_t{node} << 8 | wanted;
    for (size_t slot = (key * 0x9E3779B97F4A7C15U) >> shift_;; slot = (slot + 1) & (slots_.size() - 1)) {
      const Slot& at = slots_[slot];
      if (at.child == kNone || (at.node == node && at.byte == wanted)) return slot;
    }
  }
  uint32_t add_child(uint32_t node, char byte) {
    Slot& slot = slots_[find(node, byte)];
    if (slot.child == kNone) {
      slot = {node, static_cast<unsigned char>(byte), static_cast<uint32_t>(pieces_.size())};
      pieces_.push_back(kNoId);
    }
    return slot.child;
  }

  std::vector<Slot> slots_;
  int shift_ = 0;
  uint32_t first_[256] = {};
  std::vector<int32_t> pieces_;  // by node; kNoId: no piece ends here
};

class Unigram final : public WordModel {
 public:
  Unigram(const PieceModelFacts& facts, const Vocabulary& vocabulary, const std::vector<bool>& is_usable)
      : scores_(facts.scores),
        trie_(vocabulary, is_usable),
        unknown_(facts.unknown.value_or(kNoId)),
        rounds_(facts.rounds_scores) {
    double lowest = std::numeric_limits<double>::max();
    for (size_t id = 0; id < scores_.size(); ++id)
      if (is_usable[id]) lowest = std::min(lowest, scores_[id]);
    unknown_score_ = rounded(lowest - kUnknownPenalty);
    if (facts.falls_back_to_bytes) byte_pieces_ = find_byte_pieces(facts, vocabulary);
  }

  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const override {
    // best[end]: the best cut of the first bytes, by its last piece.
    auto& best = scratch.best;
    best.assign(word.size() + 1, {0, -1, kNoId});
    for (size_t begin = 0; begin < word.size();) {
      const size_t character = first_code_point(word.data() + begin).bytes;
      const double score_here = best[begin].score;
      const auto offer = [&](size_t end, double sum, int32_t piece) {
        if (best[end].begin < 0 || sum > best[end].score)
          best[end] = {rounded(sum), static_cast<int32_t>(begin), piece};
      };
      bool has_single = false;
      uint32_t node = 0;
      for (size_t at = begin; at < word.size(); ++at) {
        node = at == begin ? trie_.first(word[at]) : trie_.child(node, word[at]);
        if (node == Trie::kNone) break;
        const int32_t piece = trie_.piece(node);
        if (piece == kNoId) continue;
        offer(at + 1, score_here + scores_[static_cast<size_t>(piece)], piece);
        has_single = has_single || at + 1 - begin == character;
      }
      if (!has_single) offer(begin + character, rounded(score_here + unknown_score_), kNoId);
      begin += character;
    }
    append_best(word, scratch, ids);
  }

  Bytes bytes() const override {
    return trie_.bytes() + static_cast<Bytes>(scores_.capacity() * sizeof(double) +
                                              byte_pieces_.capacity() * sizeof(int32_t) + sizeof *this);
  }

 private:
  // SentencePiece keeps sums as f32, and compares what it keeps with sums of f64.
  double rounded(double sum) const { return rounds_ ? static_cast<float>(sum) : sum; }

  void append_best(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const {
    auto& cut = scratch.ids;  // where pieces end, from the last one on
    cut.clear();
    for (size_t end = word.size(); end > 0; end = static_cast<size_t>(scratch.best[end].begin))
      cut.push_back(static_cast<int32_t>(end));
    bool is_unknown = false;  // neighbouring unknown characters are one
    size_t unknown_begin = 0;
    const auto close = [&](size_t end) {
      if (!is_unknown) return;
      is_unknown = false;
      if (!byte_pieces_.empty())
        for (const char byte : word.substr(unknown_begin, end - unknown_begin))
          ids.push_back(byte_pieces_[static_cast<unsigned char>(byte)]);
      else if (unknown_ != kNoId)
        ids.push_back(unknown_);
    };
    for (auto end = cut.rbegin(); end != cut.rend(); ++end) {
      const ModelScratch::Best& last = scratch.best[static_cast<size_t>(*end)];
      const auto begin = static_cast<size_t>(last.begin);
      if (last.piece == kNoId) {
        if (!is_unknown) unknown_begin = begin;
        is_unknown = true;
        continue;
      }
      close(begin);
      ids.push_back(last.piece);
    }
    close(word.size());
  }

  const std::vector<double> scores_;
  const Trie trie_;
  const int32_t unknown_;
  const bool rounds_;
  double unknown_score_ = 0;
  std::vector<int32_t> byte_pieces_;
};

}  // namespace

std::unique_ptr<WordModel> make_unigram(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                        const std::string& source) {
  if (facts.scores.size() != static_cast<size_t>(vocabulary.size()))
    throw Error(source + ": pieces of Unigram have a score each", ErrorKind::BadData);
  std::vector<bool> is_usable(facts.scores.size());
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const double score = facts.scores[static_cast<size_t>(id)];
    if (vocabulary.has(id) && !std::isfinite(score))
      throw Error(fmt::format("{}: the score of the piece {} is {}", source, id, score), ErrorKind::BadData);
    is_usable[static_cast<size_t>(id)] =
        vocabulary.has(id) && id != facts.unknown && vocabulary.find(vocabulary.piece(id)) == id;
  }
  return std::make_unique<Unigram>(facts, vocabulary, is_usable);
}

}  // namespace plimsoll::tokenizer
