// Walks over the rows of a CSV file through a window of fixed size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>
#include "input/files/csv_row.h"
#include "input/files/file_window.h"
#include "memory/file.h"

namespace plimsoll::input {

// Blank rows are allowed at the end of the file only, so that rows can be counted. File and path must outlive it.
class CsvWalk {
 public:
  // No row may be longer than the window.
  CsvWalk(const memory::File& file, const std::string& path, const CsvSyntax& syntax, Bytes window_bytes)
      : file_(file), path_(path), syntax_(syntax), window_(window_bytes), file_bytes_(file.size()) {}

  // The next row is the one at `offset`; rows are counted from 1.
  void seek(Bytes offset, int64_t row) {
    next_offset_ = offset;
    next_row_ = row;
  }
  bool next();  // false at the end; throws Error(BadData)

  // Of the row: valid until the next one.
  const std::vector<std::string_view>& fields() const { return row_.fields(); }
  Bytes offset() const { return offset_; }
  int64_t row_number() const { return row_number_; }
  Bytes longest_row() const { return longest_row_; }  // so far

  // Throws Error(BadData) for the row, or for a column of it.
  [[noreturn]] void refuse(const std::string& column, const std::string& what) const;

 private:
  void cut();

  const memory::File& file_;
  const std::string& path_;
  const CsvSyntax syntax_;
  FileWindow window_;
  const Bytes file_bytes_;
  CsvRow row_;
  Bytes offset_ = 0, next_offset_ = 0;
  int64_t row_number_ = 0, next_row_ = 1;
  Bytes longest_row_ = 0;
};

}  // namespace plimsoll::input
