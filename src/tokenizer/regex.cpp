#include "tokenizer/regex.h"

#include <algorithm>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::tokenizer {
namespace {

constexpr size_t kLongestPattern = 16'384;
constexpr uint32_t kMostSteps = 1'000'000;  // of one match
constexpr uint32_t kMostHeapKiB = 4'096;

// White_Space as Unicode has it: \s of PCRE2 differs in U+180E.
constexpr const char* kSpaces =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// The pattern as PCRE2 reads it.
std::string translate(const std::string& pattern, const std::string& source) {
  std::string result;
  bool is_in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's' && is_in_class)
        result += kSpaces;
      else if (next == 's' || (next == 'S' && !is_in_class))
        result += fmt::format("[{}{}]", next == 'S' ? "^" : "", kSpaces);
      else
        result += {c, next};
      continue;
    }
    if (is_in_class && c == '&' && pattern.compare(i, 2, "&&") == 0)
      throw Error(fmt::format("{}: the pattern '{}' intersects character classes (&&), which is not supported", source,
                              pattern),
                  ErrorKind::BadData);
    if (!is_in_class && c == '[') {
      is_in_class = true;
      result += c;
      // A bracket right at the begin is a character.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') result += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') result += "\\]", ++i;
      continue;
    }
    if (c == ']') is_in_class = false;
    result += c;
  }
  return result;
}

struct FreeMatch {
  void operator()(pcre2_match_data_8* data) const { pcre2_match_data_free_8(data); }
  void operator()(pcre2_match_context_8* context) const { pcre2_match_context_free_8(context); }
};

std::string message_of(int code) {
  PCRE2_UCHAR8 text[200] = {};
  pcre2_get_error_message_8(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free_8(code); }

Regex::Regex(const std::string& pattern, const std::string& source) : pattern_(pattern), source_(source) {
  if (pattern.size() > kLongestPattern)
    throw Error(
        fmt::format("{}: a pattern has {} bytes; patterns have at most {}", source, pattern.size(), kLongestPattern),
        ErrorKind::BadData);
  const std::string text = translate(pattern, source);
  int code = 0;
  PCRE2_SIZE at = 0;
  code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr));
  if (code_ == nullptr)
    throw Error(fmt::format("{}: the pattern '{}' can't be read: {}", source, pattern.substr(0, 200), message_of(code)),
                ErrorKind::BadData);
  // Without code of its own for the processor it is slower and finds the same.
  static_cast<void>(pcre2_jit_compile_8(code_.get(), PCRE2_JIT_COMPLETE));
}

void Regex::find_all(std::string_view text, std::vector<TextRange>& matches) const {
  const std::unique_ptr<pcre2_match_data_8, FreeMatch> data(pcre2_match_data_create_8(1, nullptr));
  const std::unique_ptr<pcre2_match_context_8, FreeMatch> context(pcre2_match_context_create_8(nullptr));
  if (data == nullptr || context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit_8(context.get(), kMostSteps);
  pcre2_set_heap_limit_8(context.get(), kMostHeapKiB);
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer_8(data.get());
  for (size_t at = 0; at < text.size();) {
    const auto match = [&](uint32_t options) {
      return pcre2_match_8(code_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), at,
                           PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
    };
    int code = match(0);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) code = match(PCRE2_NO_JIT);
    if (code == PCRE2_ERROR_NOMATCH) break;
    if (code < 0)
      throw Error(
          fmt::format("{}: the pattern '{}' fails on a text: {}", source_, pattern_.substr(0, 200), message_of(code)),
          ErrorKind::BadData);
    if (found[1] > found[0]) matches.push_back({static_cast<uint32_t>(found[0]), static_cast<uint32_t>(found[1])});
    at = found[1] > at ? found[1] : at + first_code_point(text.data() + at).bytes;
  }
}

Bytes Regex::bytes() const {
  size_t code = 0, jit = 0;
  pcre2_pattern_info_8(code_.get(), PCRE2_INFO_SIZE, &code);
  pcre2_pattern_info_8(code_.get(), PCRE2_INFO_JITSIZE, &jit);
  return static_cast<Bytes>(code + jit + pattern_.capacity() + source_.capacity() + sizeof *this);
}

PatternFinder::PatternFinder(const Pattern& pattern, const std::string& source) : pattern_(pattern) {
  if (pattern.text.empty()) throw Error(source + ": a pattern is empty", ErrorKind::BadData);
  if (!pattern.is_regex) return;
  if (const KnownPattern* const known = find_known_pattern(pattern.text)) {
    is_known_ = true;
    scan_ = known->scan;
  }
  if (scan_ == nullptr) regex_ = std::make_unique<Regex>(pattern.text, source);
}

void PatternFinder::find_all(std::string_view text, std::vector<TextRange>& matches) const {
  if (scan_ != nullptr) return scan_(text, matches);
  if (regex_ != nullptr) return regex_->find_all(text, matches);
  for (size_t at = text.find(pattern_.text); at != std::string_view::npos;
       at = text.find(pattern_.text, at + pattern_.text.size()))
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + pattern_.text.size())});
}

bool PatternFinder::ends_before_spaces() const {
  return pattern_.is_regex ? is_known_ : pattern_.text.find(' ') == std::string::npos || pattern_.text == " ";
}

Bytes PatternFinder::bytes() const {
  return static_cast<Bytes>(pattern_.text.capacity() + sizeof *this) + (regex_ == nullptr ? 0 : regex_->bytes());
}

}  // namespace plimsoll::tokenizer
