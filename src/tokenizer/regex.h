// Regular expressions of files, with limits: PCRE2 over UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "tokenizer/description.h"

struct pcre2_real_code_8;

namespace plimsoll::tokenizer {

// Bytes of a text.
struct TextRange {
  uint32_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

class Regex {
 public:
  // Throws Error(BadData) for what PCRE2 refuses.
  Regex(const std::string& pattern, const std::string& source);
  // Appends all matches that are not empty, from left to right. Throws Error(BadData) where a match takes too many
  // steps.
  void find_all(std::string_view text, std::vector<TextRange>& matches) const;
  Bytes bytes() const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string pattern_, source_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

// What a pattern of a file finds: a text, a splitter that is written by hand, or an expression.
class PatternFinder {
 public:
  PatternFinder(const Pattern& pattern, const std::string& source);
  void find_all(std::string_view text, std::vector<TextRange>& matches) const;
  // Whether no match goes on from a letter or digit to a space: texts may be cut there.
  bool ends_before_spaces() const;
  Bytes bytes() const;

 private:
  using Scan = void (*)(std::string_view text, std::vector<TextRange>& matches);
  Pattern pattern_;
  Scan scan_ = nullptr;
  bool is_known_ = false;
  std::unique_ptr<Regex> regex_;
};

// A pattern that vocabularies share, and the scan that finds the same where there is one.
struct KnownPattern {
  std::string_view text;
  void (*scan)(std::string_view text, std::vector<TextRange>& matches);
};
const KnownPattern* find_known_pattern(std::string_view pattern);
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;
extern const char* const kQwen2Pattern;
extern const char* const kTekkenPattern;
extern const char* const kLlama4Pattern;

}  // namespace plimsoll::tokenizer
