// Characters of UTF-8 text: their values, their kinds, and the repair of broken bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::tokenizer {

struct CodePoint {
  char32_t value = 0;
  uint32_t bytes = 0;
};

// The character at the begin of right UTF-8 text that is not empty.
inline CodePoint first_code_point(const char* at) {
  const auto byte = [at](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1FU) << 6 | (byte(1) & 0x3FU), 2};
  if (lead < 0xF0) return {(lead & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU), 3};
  return {(lead & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU), 4};
}

// Where the last character of right UTF-8 text that is not empty begins.
inline size_t begin_of_last(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80) --at;
  return at;
}

void append_utf8(char32_t value, std::string& into);

// Bytes at the begin of `text` that are right UTF-8.
size_t right_bytes(std::string_view text);
// Appends `text` with U+FFFD for each broken part, cut as Python's decode(errors="replace") cuts them; returns how many
// parts were broken.
int64_t append_repaired(std::string_view text, std::string& into);

// Calls `visit(code point, its bytes)` for each character of right UTF-8 text.
template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.data() + at);
    visit(point.value, text.substr(at, point.bytes));
    at += point.bytes;
  }
}

// Kinds of characters as Unicode 16 has them.
enum Kind : uint8_t {
  kUpper = 1,        // Lu, Lt
  kLower = 2,        // Ll
  kOtherLetter = 4,  // Lm, Lo
  kMark = 8,
  kNumber = 16,
  kPunctuation = 32,
  kSymbol = 64,
  kSpace = 128,  // White_Space
};
constexpr unsigned kLetter = kUpper | kLower | kOtherLetter;
extern const uint8_t kAsciiKinds[128];
uint8_t kind_beyond_ascii(char32_t value);
inline uint8_t kind_of(char32_t value) { return value < 128 ? kAsciiKinds[value] : kind_beyond_ascii(value); }

bool is_space(char32_t value);
bool is_word(char32_t value);         // \w: letters, marks, digits, connectors
bool is_punctuation(char32_t value);  // as the pre-tokenisers Punctuation and BertPreTokenizer see it
bool is_mark(char32_t value);         // as StripAccents sees it
bool is_accent(char32_t value);       // as BertNormalizer sees it
bool is_control(char32_t value);      // as BertNormalizer sees it
bool is_ideograph(char32_t value);    // as BertNormalizer sees it
void append_lower(char32_t value, std::string& into);

enum class Form : uint8_t { Nfc, Nfd, Nfkc, Nfkd };
// Right UTF-8 text in that form.
std::string normal_form(std::string_view text, Form form);

}  // namespace plimsoll::tokenizer
