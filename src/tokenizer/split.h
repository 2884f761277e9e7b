// Pre-tokenisers cut text into words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace plimsoll::tokenizer {

// Words of a text: what lies between them was removed.
struct Words {
  std::string_view text;
  std::vector<TextRange> words;
  // Where a pre-tokeniser changed the text, it is held here. Two, so that one can be made of the other.
  std::string held[2];
  int used = 0;
  std::vector<TextRange> others, matches;  // room to work in, kept between texts

  void reset(std::string_view whole) {
    text = whole;
    words.assign(1, {0, static_cast<uint32_t>(whole.size())});
  }
  std::string_view word(const TextRange& range) const { return text.substr(range.begin, range.end - range.begin); }
  Bytes bytes() const;
};

class SplitterStep {
 public:
  // Throws Error(BadData).
  SplitterStep(const Splitter& facts, const std::string& source);
  // `is_first`: the text is the begin of what is encoded.
  void apply(Words& words, bool is_first) const;
  bool ends_before_spaces() const;  // see PatternFinder
  Bytes bytes() const;

 private:
  void apply_metaspace(Words& words, bool is_first) const;
  void apply_prefix(Words& words) const;

  Splitter facts_;
  std::optional<PatternFinder> finder_;
};

}  // namespace plimsoll::tokenizer
