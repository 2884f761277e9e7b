// Numbers in the text of a field, and what a column holds by the look of its first fields.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

#include <plimsoll/formats.h>

namespace plimsoll::input {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// All of the text, blanks around it and a plus sign before it aside.
template <class Number>
bool parse_number(std::string_view text, Number& value) {
  text = trimmed(text);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size();
}

// Fields that are enough to tell the type of a column.
constexpr int kSampledRows = 100;

// The narrowest type that all fields have which were added; empty ones are floats that are missing.
class CsvTypeGuess {
 public:
  void add(std::string_view text) {
    int64_t whole = 0;
    double real = 0;
    if (type_ == CsvType::Integer && !parse_number(text, whole)) type_ = CsvType::Float;
    if (type_ == CsvType::Float && !trimmed(text).empty() && !parse_number(text, real)) type_ = CsvType::Category;
  }
  CsvType type() const { return type_; }

 private:
  CsvType type_ = CsvType::Integer;
};

}  // namespace plimsoll::input
