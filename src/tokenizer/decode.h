// Ids back to text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace plimsoll::tokenizer {

class DecoderStep {
 public:
  DecoderStep(const Decoder& facts, const std::string& source);  // throws Error(BadData)
  // Changes the tokens, the first of which may be the first of the text.
  void apply(std::vector<std::string>& tokens) const;
  Bytes bytes() const;

 private:
  Decoder facts_;
  std::optional<PatternFinder> finder_;
};

}  // namespace plimsoll::tokenizer
