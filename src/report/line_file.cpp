#include "report/line_file.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::report {
namespace {

constexpr Bytes kPiece = 4 * KiB;  // that is read at once

}  // namespace

void for_each_line(const std::string& path, const std::function<bool(std::string_view line, Bytes end)>& visit) {
  const memory::File file = memory::File::open(path);
  std::string held;  // from the start of a line on
  char piece[kPiece];
  for (Bytes offset = 0;;) {
    const Bytes got = file.read_some(offset, kPiece, piece, path);
    if (got == 0) return;
    std::string_view rest(piece, static_cast<size_t>(got));
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      held += rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (!visit(held, offset + got - static_cast<Bytes>(rest.size()))) return;
      held.clear();
    }
    held += rest;
    offset += got;
    if (static_cast<Bytes>(held.size()) > kLongestLine)
      throw Error(fmt::format("{}: a line before byte {} is longer than {}; this is no file of metrics", path, offset,
                              format_bytes(kLongestLine)),
                  ErrorKind::BadData);
  }
}

LineFile::LineFile(const std::string& path, memory::AppendFile::Content content) : file_(path, content) {
  // Looks for the last end of a line from the back.
  char piece[kPiece];
  Bytes whole = 0;
  for (Bytes end = file_.size(); end > 0 && whole == 0;) {
    const Bytes begin = std::max<Bytes>(0, end - kPiece);
    const std::string_view text(piece, static_cast<size_t>(file_.read_some(begin, end - begin, piece)));
    if (const size_t at = text.rfind('\n'); at != std::string_view::npos) whole = begin + static_cast<Bytes>(at) + 1;
    end = begin;
  }
  file_.cut(whole);
}

void LineFile::append(std::string_view line) {
  file_.append(std::string(line) + '\n');
  file_.flush();
}

void LineFile::cut_from(const std::function<bool(std::string_view line)>& is_unwanted) {
  Bytes kept = 0;
  for_each_line(path(), [&](std::string_view line, Bytes end) {
    if (is_unwanted(line)) return false;
    kept = end;
    return true;
  });
  file_.cut(kept);
}

}  // namespace plimsoll::report
