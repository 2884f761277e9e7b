// Cuts one row of a CSV file into its fields, as RFC 4180 says: quotes, doubled quotes, line breaks inside quotes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/formats.h>

namespace plimsoll::input {

class CsvRow {
 public:
  enum class Result {
    Whole,
    Unfinished,  // the row goes on behind the text
    Damaged,     // text behind a closing quote; damaged_field() says where
  };

  // `at_end`: nothing follows the text. The fields point into the text or into this object, until the next call.
  Result cut(std::string_view text, bool at_end, const CsvSyntax& syntax);

  const std::vector<std::string_view>& fields() const { return fields_; }
  size_t bytes() const { return bytes_; }  // of the row and its line break
  bool is_blank() const { return fields_.size() == 1 && fields_[0].empty() && !has_quotes_; }
  size_t damaged_field() const { return fields_.size(); }

 private:
  bool take_quoted(std::string_view text, size_t& at, char quote);

  std::vector<std::string_view> fields_;
  std::string plain_;  // fields without their doubled quotes
  size_t bytes_ = 0;
  bool has_quotes_ = false;
};

}  // namespace plimsoll::input
