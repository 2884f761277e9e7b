// Lines of words: the lexical ground of the planner's text forms.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace plimsoll {

// A word that prints so that it reads back: quoted when it holds blanks, quotes or '#', is empty, or is one of the
// words with a meaning of their own.
std::string quote(std::string_view word);

// Reads words line by line. '#' starts a comment. Errors name the line and what was expected.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : rest_(text) {}

  bool next_line();  // to the next line with words; false at the end
  bool at_end() const { return next_ == words_.size(); }
  // Is the next word this keyword, unquoted? Takes it if so.
  bool take(std::string_view keyword);
  bool next_is_keyword() const;
  const std::string& word(std::string_view expected);
  int64_t integer(std::string_view expected);
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
  int64_t line_ = 0;
  std::vector<Word> words_;
  size_t next_ = 0;
};

}  // namespace plimsoll
