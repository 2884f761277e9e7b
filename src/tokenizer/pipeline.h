// A tokenizer that was read: all its steps. It does not change, so threads share one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/decode.h"
#include "tokenizer/model.h"
#include "tokenizer/normalise.h"
#include "tokenizer/split.h"
#include "tokenizer/word_cache.h"

namespace plimsoll::tokenizer {

// What encoding works in: one for each thread.
struct TokenScratch {
  ModelScratch model;
  Words words;
  WordCache cache;
  std::string repaired, normalised;
  std::vector<Segment> segments, inner;
  Bytes bytes() const;
};

class TokenPipeline {
 public:
  // Throws Error(BadData).
  explicit TokenPipeline(Description description);

  // Appends the ids of a text without those of the template, and returns how many broken parts of UTF-8 were read as
  // U+FFFD. `begins` false: the text goes on from another one that was cut at a place of find_cut.
  int64_t encode(std::string_view text, bool begins, TokenScratch& scratch, std::vector<int32_t>& ids) const;
  // The last place where a text may be cut without any change of its ids; 0: none.
  size_t find_cut(std::string_view text) const;
  bool can_cut() const { return can_cut_; }

  std::string decode(std::span<const int32_t> ids, bool skips_special) const;

  const std::vector<TemplatePart>& single() const { return single_; }
  const std::vector<TemplatePart>& pair() const { return pair_; }
  // The smallest table that has a row for each id.
  int64_t size() const { return size_; }
  std::string_view token(int32_t id) const;  // empty: none
  int32_t find(std::string_view token) const;
  bool is_special(int32_t id) const;
  Bytes bytes() const;

 private:
  void encode_text(std::string_view text, bool is_first, bool begins, TokenScratch& scratch,
                   std::vector<int32_t>& ids) const;
  bool has_marks_outside(const std::string& mark) const;

  const std::string source_;
  const Vocabulary vocabulary_;
  std::unique_ptr<WordModel> model_;
  std::vector<NormaliserStep> normalisers_;
  std::vector<SplitterStep> splitters_;
  AddedTokens raw_, normalised_;   // found before and after the text is normalised
  std::vector<AddedToken> added_;  // by id
  std::vector<TemplatePart> single_, pair_;
  std::vector<DecoderStep> decoders_;
  bool joins_by_spaces_ = false, can_cut_ = false;
  int64_t size_ = 0;
};

}  // namespace plimsoll::tokenizer
