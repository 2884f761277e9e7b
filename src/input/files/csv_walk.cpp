#include "input/files/csv_walk.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/wire.h"

namespace plimsoll::input {

bool CsvWalk::next() {
  int64_t blank_row = 0;
  while (next_offset_ < file_bytes_) {
    offset_ = next_offset_;
    row_number_ = next_row_++;
    cut();
    next_offset_ += static_cast<Bytes>(row_.bytes());
    longest_row_ = std::max(longest_row_, static_cast<Bytes>(row_.bytes()));
    if (!row_.is_blank() && blank_row == 0) return true;
    if (!row_.is_blank()) {
      row_number_ = blank_row;
      refuse("", "the row is empty; remove it");
    }
    if (blank_row == 0) blank_row = row_number_;
  }
  return false;
}

void CsvWalk::refuse(const std::string& column, const std::string& what) const {
  throw Error(column.empty() ? fmt::format("{}: row {} (at byte {}): {}", path_, row_number_, offset_, what)
                             : fmt::format("{}: row {}, column {}: {}", path_, row_number_, column, what),
              ErrorKind::BadData);
}

void CsvWalk::cut() {
  for (Bytes wanted = 1;;) {
    const auto bytes = window_.get(file_, path_, offset_, wanted);
    const auto here = static_cast<Bytes>(bytes.size());
    if (here < wanted) refuse("", "the file ends; it became shorter since it was opened");
    const bool at_end = offset_ + here >= file_bytes_;
    const CsvRow::Result result = row_.cut(text_of(bytes), at_end, syntax_);
    if (result == CsvRow::Result::Whole) return;
    if (result == CsvRow::Result::Damaged)
      refuse(std::to_string(row_.damaged_field()),
             at_end ? "a quote is not closed, or text follows it" : "text follows a closing quote");
    if (here >= window_.capacity())
      refuse("", fmt::format("the row is longer than {}; is a quote missing? If not, raise longest_row",
                             format_bytes(window_.capacity())));
    wanted = std::min({std::max(2 * here, 4 * KiB), window_.capacity(), file_bytes_ - offset_});
  }
}

}  // namespace plimsoll::input
