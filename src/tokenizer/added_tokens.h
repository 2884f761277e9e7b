// Tokens that are found in the text itself, before it is cut into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "tokenizer/description.h"

namespace plimsoll::tokenizer {

// A stretch of text, or an added token.
struct Segment {
  std::string_view text;
  int32_t id = kNoId;  // kNoId: text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Throws Error(BadData) for an empty content or a very long one.
  AddedTokens(std::vector<AddedToken> tokens, const std::string& source);

  bool empty() const { return tokens_.empty(); }
  // Appends the segments of a text: at each place the longest token, from left to right.
  void split(std::string_view text, std::vector<Segment>& segments) const;
  // Whether no token reaches from a letter or digit over a space.
  bool ends_before_spaces() const;
  Bytes bytes() const;

 private:
  const AddedToken* find_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by content
  bool is_first_[256] = {};         // bytes that a token begins with
};

}  // namespace plimsoll::tokenizer
