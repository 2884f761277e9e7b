// WordPiece: the longest piece at the begin of a word, then the longest one that continues it; WordLevel: the word.
#include <algorithm>

#include <plimsoll/error.h>
#include "tokenizer/model.h"

namespace plimsoll::tokenizer {
namespace {

int64_t count_characters(std::string_view word) {
  return std::count_if(word.begin(), word.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; });
}

class WordPiece final : public WordModel {
 public:
  WordPiece(const PieceModelFacts& facts, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), unknown_(*facts.unknown), prefix_(facts.prefix), longest_word_(facts.longest_word) {
    for (int32_t id = 0; id < vocabulary.size(); ++id)
      longest_piece_ = std::max(longest_piece_, vocabulary.piece(id).size());
  }

  void encode(std::string_view word, ModelScratch& /*scratch*/, std::vector<int32_t>& ids) const override {
    if (count_characters(word) > longest_word_) return ids.push_back(unknown_);
    const size_t before = ids.size();
    std::string continued = prefix_;
    for (size_t begin = 0; begin < word.size();) {
      size_t end = std::min(word.size(), begin + longest_piece_);
      while (end < word.size() && is_inside(word, end)) --end;
      int32_t piece = kNoId;
      for (; end > begin; --end) {
        if (end < word.size() && is_inside(word, end)) continue;
        std::string_view text = word.substr(begin, end - begin);
        if (begin > 0) {
          continued.resize(prefix_.size());
          text = continued.append(text);
        }
        piece = vocabulary_.find(text);
        if (piece != kNoId) break;
      }
      if (piece == kNoId) {
        ids.resize(before);
        return ids.push_back(unknown_);
      }
      ids.push_back(piece);
      begin = end;
    }
  }

  Bytes bytes() const override { return sizeof *this; }

 private:
  static bool is_inside(std::string_view word, size_t at) {
    return (static_cast<unsigned char>(word[at]) & 0xC0U) == 0x80;
  }

  const Vocabulary& vocabulary_;
  const int32_t unknown_;
  const std::string prefix_;
  const int64_t longest_word_;
  size_t longest_piece_ = 1;
};

class WordLevel final : public WordModel {
 public:
  WordLevel(const Vocabulary& vocabulary, int32_t unknown) : vocabulary_(vocabulary), unknown_(unknown) {}
  void encode(std::string_view word, ModelScratch& /*scratch*/, std::vector<int32_t>& ids) const override {
    const int32_t id = vocabulary_.find(word);
    ids.push_back(id == kNoId ? unknown_ : id);
  }
  Bytes bytes() const override { return sizeof *this; }

 private:
  const Vocabulary& vocabulary_;
  const int32_t unknown_;
};

}  // namespace

std::unique_ptr<WordModel> make_word_piece(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                           const std::string& source) {
  if (!facts.unknown) throw Error(source + ": WordPiece has no piece for unknown words", ErrorKind::BadData);
  return std::make_unique<WordPiece>(facts, vocabulary);
}

std::unique_ptr<WordModel> make_word_level(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                           const std::string& source) {
  if (!facts.unknown) throw Error(source + ": WordLevel has no piece for unknown words", ErrorKind::BadData);
  return std::make_unique<WordLevel>(vocabulary, *facts.unknown);
}

}  // namespace plimsoll::tokenizer
