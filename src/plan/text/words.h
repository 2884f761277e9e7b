// Lines of words: the tokens of the planner's text forms.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::plan {

// A word that prints so that it reads back: quoted when it holds blanks, quotes or '#', is empty, or is one of the
// words with a meaning of their own.
std::string quote(std::string_view word);

// No size in a text is larger, so that sums of a few don't overflow.
constexpr Bytes kLargestSize = Bytes{1} << 60;

// Reads words line by line. '#' starts a comment. Errors name the line and what was expected.
class WordReader {
 public:
  // `lines_before` stand before `text` in its file.
  explicit WordReader(std::string_view text, int64_t lines_before = 0) : rest_(text), line_(lines_before) {}

  bool next_line();  // to the next line with words; false at the end
  bool at_end() const { return next_ == words_.size(); }
  // Is the next word this keyword, unquoted? Takes it if so.
  bool take(std::string_view keyword);
  bool next_is_keyword() const;
  const std::string& word(std::string_view expected);
  int64_t integer(std::string_view expected);
  int32_t small_integer(std::string_view expected);  // in 32 bits
  Bytes size(std::string_view expected);             // from 0 to kLargestSize
  double number(std::string_view expected);
  void expect(std::string_view keyword);
  void expect_end();
  [[noreturn]] void refuse(const std::string& what) const;  // throws Error

 private:
  struct Word {
    std::string text;
    bool is_quoted = false;
  };
  std::string_view rest_;
  int64_t line_;
  std::vector<Word> words_;
  size_t next_ = 0;
};

}  // namespace plimsoll::plan
