#include "plan/text/words.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::plan {
namespace {

// Words that end a list of names. Names that look like them are quoted.
constexpr std::array<std::string_view, 11> kKeywords{"reads", "writes",       "updates", "workspace", "cost", "share",
                                                     "batch", "recomputable", "variant", "lane",      "peer"};

bool is_keyword(std::string_view word) {
  return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end();
}
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

std::string quote(std::string_view word) {
  const bool is_plain = !word.empty() && !is_keyword(word) && word[0] != '@' && word != "-" &&
                        word.find_first_of(" \t\r\n\"\\#") == std::string_view::npos;
  if (is_plain) return std::string(word);
  std::string quoted = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool WordReader::next_line() {
  while (!rest_.empty()) {
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    words_.clear();
    next_ = 0;
    for (size_t i = 0; i < line.size();) {
      if (is_blank(line[i])) {
        ++i;
      } else if (line[i] == '#') {
        break;
      } else if (line[i] == '"') {
        Word word{"", true};
        for (++i; i < line.size() && line[i] != '"'; ++i) {
          if (line[i] == '\\' && i + 1 < line.size()) {
            ++i;
            word.text += line[i] == 'n' ? '\n' : line[i];
          } else {
            word.text += line[i];
          }
        }
        if (i == line.size()) refuse("a quote is not closed");
        ++i;
        words_.push_back(std::move(word));
      } else {
        const size_t begin = i;
        while (i < line.size() && !is_blank(line[i])) ++i;
        words_.push_back({std::string(line.substr(begin, i - begin)), false});
      }
    }
    if (!words_.empty()) return true;
  }
  return false;
}

bool WordReader::take(std::string_view keyword) {
  if (at_end() || words_[next_].is_quoted || words_[next_].text != keyword) return false;
  ++next_;
  return true;
}

bool WordReader::next_is_keyword() const {
  return !at_end() && !words_[next_].is_quoted && is_keyword(words_[next_].text);
}

const std::string& WordReader::word(std::string_view expected) {
  if (at_end()) refuse(fmt::format("{} is missing", expected));
  return words_[next_++].text;
}

int64_t WordReader::integer(std::string_view expected) {
  const std::string& text = word(expected);
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size())
    refuse(fmt::format("'{}' is not a whole number, which {} must be", text, expected));
  return value;
}

int32_t WordReader::small_integer(std::string_view expected) {
  const int64_t value = integer(expected);
  if (value != static_cast<int32_t>(value)) refuse(fmt::format("{} can't be {}", expected, value));
  return static_cast<int32_t>(value);
}

Bytes WordReader::size(std::string_view expected) {
  const Bytes value = integer(expected);
  if (value < 0 || value > kLargestSize) refuse(fmt::format("{} can't be {}", expected, value));
  return value;
}

double WordReader::number(std::string_view expected) {
  const std::string& text = word(expected);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size())
    refuse(fmt::format("'{}' is not a number, which {} must be", text, expected));
  return value;
}

void WordReader::expect(std::string_view keyword) {
  if (at_end()) refuse(fmt::format("'{}' is missing", keyword));
  if (!take(keyword)) refuse(fmt::format("'{}' stands where '{}' must be", words_[next_].text, keyword));
}

void WordReader::expect_end() {
  if (!at_end()) refuse(fmt::format("'{}' is not understood", words_[next_].text));
}

void WordReader::refuse(const std::string& what) const {
  throw Error(fmt::format("line {}: {}", line_, what), ErrorKind::BadData);
}

}  // namespace plimsoll::plan
