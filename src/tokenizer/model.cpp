#include "tokenizer/model.h"

#include <fmt/format.h>

namespace plimsoll::tokenizer {

Bytes ModelScratch::bytes() const {
  return static_cast<Bytes>(symbols.capacity() * sizeof(Symbol) + heap.capacity() * sizeof(Candidate) +
                            best.capacity() * sizeof(Best) + ids.capacity() * sizeof(int32_t));
}

std::unique_ptr<WordModel> make_model(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                      const std::string& source) {
  switch (facts.kind) {
    case ModelKind::Bpe:
      return make_bpe(facts, vocabulary, source);
    case ModelKind::WordPiece:
      return make_word_piece(facts, vocabulary, source);
    case ModelKind::Unigram:
      return make_unigram(facts, vocabulary, source);
    case ModelKind::WordLevel:
      break;
  }
  return make_word_level(facts, vocabulary, source);
}

std::vector<int32_t> find_byte_pieces(const PieceModelFacts& facts, const Vocabulary& vocabulary) {
  if (!facts.byte_pieces.empty()) return facts.byte_pieces;
  std::vector<int32_t> pieces;
  for (int byte = 0; byte < 256; ++byte) {
    pieces.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)));
    if (pieces.back() == kNoId) return {};
  }
  return pieces;
}

}  // namespace plimsoll::tokenizer
