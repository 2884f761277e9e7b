// Normalisers change text before it is cut.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chars_map.h"
#include "tokenizer/regex.h"

namespace plimsoll::tokenizer {

class NormaliserStep {
 public:
  // Throws Error(BadData).
  NormaliserStep(const Normaliser& facts, const std::string& source);
  // `begins` false: the text goes on from another one that was cut before a space.
  void apply(std::string& text, bool begins) const;
  bool ends_before_spaces() const;  // see PatternFinder
  Bytes bytes() const;

 private:
  void apply_bert(std::string& text) const;

  Normaliser facts_;
  std::optional<PatternFinder> finder_;
  std::optional<CharsMap> map_;
};

}  // namespace plimsoll::tokenizer
