#include "input/files/csv_guess.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/csv_number.h"
#include "input/files/csv_walk.h"
#include "input/files/inflate.h"
#include "memory/temporary_file.h"

namespace plimsoll::input {
namespace {

// The separator that cuts the first row into the most fields.
char guess_separator(const memory::File& file, const std::string& path, Bytes longest_row) {
  char best = ',';
  size_t most_fields = 1;
  for (const char separator : {',', '\t', ';'}) {
    CsvWalk walk(file, path, {.separator = separator}, longest_row);
    if (!walk.next() || walk.fields().size() <= most_fields) continue;
    best = separator;
    most_fields = walk.fields().size();
  }
  return best;
}

bool is_number(std::string_view text) {
  double value = 0;
  return parse_number(text, value);
}

}  // namespace

CsvOptions guess_csv(const std::string& path, const std::string& scratch_dir) {
  const memory::File file = open_unpacked(path, memory::choose_scratch_dir(scratch_dir));
  CsvOptions options;
  options.scratch_dir = scratch_dir;
  options.syntax.separator = guess_separator(file, path, options.longest_row);
  CsvWalk walk(file, path, options.syntax, options.longest_row);
  if (!walk.next()) throw Error(fmt::format("{}: holds no row", path), ErrorKind::BadData);
  std::vector<std::string> first;
  for (const std::string_view name : walk.fields()) first.emplace_back(trimmed(name));
  if (first[0].starts_with(kByteOrderMark)) first[0].erase(0, kByteOrderMark.size());
  options.has_header = std::none_of(first.begin(), first.end(), is_number);
  std::vector<CsvTypeGuess> guesses(first.size());
  for (size_t i = 0; i < first.size() && !options.has_header; ++i) guesses[i].add(first[i]);
  for (int row = 0; row < kSampledRows && walk.next(); ++row)
    for (size_t i = 0; i < std::min(guesses.size(), walk.fields().size()); ++i) guesses[i].add(walk.fields()[i]);
  // A column is named by its number where its name is empty or occurs twice.
  const auto is_name = [&](const std::string& text) {
    return options.has_header && !text.empty() && std::count(first.begin(), first.end(), text) == 1;
  };
  for (size_t i = 0; i < guesses.size(); ++i)
    options.columns.push_back({is_name(first[i]) ? first[i] : std::to_string(i), guesses[i].type()});
  return options;
}

}  // namespace plimsoll::input
