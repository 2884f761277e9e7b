#include "base/nearest.h"

#include <fnmatch.h>

#include <cctype>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace plimsoll {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      const bool is_swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (is_swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last.back();
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  const auto found =
      std::ranges::min_element(known, {}, [&](const std::string& name) { return edit_distance(name, word); });
  return found == known.end() ? std::string() : *found;
}

std::string likely_meant(std::string_view word, std::span<const std::string> known) {
  // A word that starts with the whole of another is likely a longer form of it.
  for (const std::string& name : known)
    if (word.size() >= 3 && (name.starts_with(word) || (name.size() >= 3 && word.starts_with(name)))) return name;
  const std::string name = nearest(word, known);
  const size_t allowed = std::max<size_t>(1, std::max(word.size(), name.size()) / 3);
  return !name.empty() && edit_distance(name, word) <= allowed ? name : std::string();
}

std::string plain_name(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) letters += static_cast<char>(std::tolower(byte));
  }
  return letters;
}

bool fits_pattern(const std::string& pattern, std::string_view name) {
  return ::fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
}

}  // namespace plimsoll
