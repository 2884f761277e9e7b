#include "input/files/csv_row.h"

namespace plimsoll::input {

// From the opening quote on; false when the closing one is missing.
bool CsvRow::take_quoted(std::string_view text, size_t& at, char quote) {
  has_quotes_ = true;
  const size_t start = ++at;
  const size_t plain_start = plain_.size();
  bool has_doubled = false;
  for (size_t piece = start;;) {
    const size_t end = text.find(quote, at);
    if (end == std::string_view::npos) return false;
    at = end + 1;
    if (at < text.size() && text[at] == quote) {
      plain_.append(text, piece, at - piece);
      piece = ++at;
      has_doubled = true;
      continue;
    }
    if (!has_doubled) {
      fields_.push_back(text.substr(start, end - start));
    } else {
      plain_.append(text, piece, end - piece);
      fields_.emplace_back(plain_.data() + plain_start, plain_.size() - plain_start);
    }
    return true;
  }
}

CsvRow::Result CsvRow::cut(std::string_view text, bool at_end, const CsvSyntax& syntax) {
  fields_.clear();
  plain_.clear();
  plain_.reserve(text.size());  // so that fields may point into it
  has_quotes_ = false;
  const auto is_break = [&](size_t at) { return text[at] == '\n' || text[at] == '\r'; };
  for (size_t at = 0;;) {
    if (at < text.size() && text[at] == syntax.quote) {
      if (!take_quoted(text, at, syntax.quote)) {
        if (!at_end) return Result::Unfinished;
        return Result::Damaged;
      }
    } else {
      const size_t start = at;
      while (at < text.size() && text[at] != syntax.separator && !is_break(at)) ++at;
      fields_.push_back(text.substr(start, at - start));
    }
    if (at == text.size()) {
      if (!at_end) return Result::Unfinished;
      bytes_ = at;
      return Result::Whole;
    }
    if (is_break(at)) {
      const bool is_return = text[at] == '\r';
      // A line feed may follow behind the end of the text.
      if (is_return && at + 1 == text.size() && !at_end) return Result::Unfinished;
      bytes_ = at + (is_return && at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1);
      return Result::Whole;
    }
    if (text[at] != syntax.separator) {
      fields_.pop_back();
      return Result::Damaged;
    }
    ++at;
  }
}

}  // namespace plimsoll::input
