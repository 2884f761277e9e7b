// A text file that grows by whole lines: after a crash an unfinished last line counts as absent.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "memory/append_file.h"

namespace plimsoll::report {

constexpr Bytes kLongestLine = 64 * KiB;

// Calls `visit` with each whole line of a file, without its end, and the byte behind that; until it returns false.
// Holds one line at a time. Throws Error(BadData) for a line that is too long.
void for_each_line(const std::string& path, const std::function<bool(std::string_view line, Bytes end)>& visit);

class LineFile {
 public:
  static constexpr Bytes kBytes = memory::AppendFile::kBufferBytes + kLongestLine;  // all that it takes

  // Cuts off an unfinished last line of what is kept. Throws what AppendFile throws.
  LineFile(const std::string& path, memory::AppendFile::Content content);

  const std::string& path() const { return file_.path(); }
  bool is_empty() const { return file_.size() == 0; }
  // In the file on return. Throws Error, DiskFull when the disk is full: the line is then absent.
  void append(std::string_view line);
  // Cuts off the first line for which `is_unwanted` is true, and all lines after it.
  void cut_from(const std::function<bool(std::string_view line)>& is_unwanted);

 private:
  memory::AppendFile file_;
};

}  // namespace plimsoll::report
