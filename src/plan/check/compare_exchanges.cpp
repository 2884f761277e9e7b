#include "plan/check/compare_exchanges.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace plimsoll::plan {
namespace {

// The line that begins there, and where the next one does.
std::string_view take_line(std::string_view text, size_t& at) {
  const size_t begin = std::min(at, text.size()), end = std::min(text.find('\n', begin), text.size());
  at = end + 1;
  return text.substr(begin, end - begin);
}

std::string say_exchange(std::string_view line) {
  const size_t space = line.rfind(' ');
  if (line.empty() || space == std::string_view::npos) return "none";
  return fmt::format("'{}' of {} bytes", line.substr(0, space), line.substr(space + 1));
}

}  // namespace

std::string compare_exchanges(std::span<const std::string> lists) {
  for (size_t rank = 1; rank < lists.size(); ++rank) {
    const std::string &first = lists[0], &own = lists[rank];
    size_t at = 0, own_at = 0;
    for (int64_t number = 1; at < first.size() || own_at < own.size(); ++number) {
      const std::string_view expected = take_line(first, at), found = take_line(own, own_at);
      if (expected != found)
        return fmt::format("exchange {} of rank {} is {}, that of rank 0 is {}", number, rank, say_exchange(found),
                           say_exchange(expected));
    }
  }
  return "";
}

}  // namespace plimsoll::plan
