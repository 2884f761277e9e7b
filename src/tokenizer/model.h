// Models turn words, as pre-tokenisers cut them, into ids.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "tokenizer/description.h"

namespace plimsoll::tokenizer {

// Memory that a model works in, kept between words. One for each thread.
struct ModelScratch {
  struct Symbol {
    int32_t piece, previous, next;  // places of neighbours, -1: none
  };
  struct Candidate {
    uint32_t rank;
    int32_t place, piece;
  };
  struct Best {
    double score;
    int32_t begin, piece;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<Best> best;
  std::vector<int32_t> ids;
  Bytes bytes() const;
};

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Appends the ids of a word, which is right UTF-8 and not empty.
  virtual void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const = 0;
  virtual Bytes bytes() const = 0;  // held beside the vocabulary
};

// `vocabulary` is that of the facts, and outlives the model. Throws Error(BadData).
std::unique_ptr<WordModel> make_model(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                      const std::string& source);

std::unique_ptr<WordModel> make_bpe(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                    const std::string& source);
std::unique_ptr<WordModel> make_word_piece(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                           const std::string& source);
std::unique_ptr<WordModel> make_unigram(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                        const std::string& source);
std::unique_ptr<WordModel> make_word_level(const PieceModelFacts& facts, const Vocabulary& vocabulary,
                                           const std::string& source);

// The piece of each byte for falling back to bytes, empty where one is missing.
std::vector<int32_t> find_byte_pieces(const PieceModelFacts& facts, const Vocabulary& vocabulary);

}  // namespace plimsoll::tokenizer
