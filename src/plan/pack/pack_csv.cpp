#include "plan/pack/pack_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::plan {
namespace {

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    std::string_view cell = line.substr(0, comma);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t' || cell.back() == '\r')) cell.remove_suffix(1);
    cells.push_back(cell);
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

[[noreturn]] void refuse(int64_t line, const std::string& what) {
  throw Error(fmt::format("packing table, line {}: {}", line, what), ErrorKind::BadData);
}

int64_t parse_cell(int64_t line, std::string_view column, std::string_view cell) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (status != std::errc() || end != cell.data() + cell.size())
    refuse(line, fmt::format("{} is '{}', not a whole number", column, cell));
  return value;
}

}  // namespace

PackTable read_packing_csv(std::istream& in) {
  constexpr std::array<std::string_view, 4> kColumns{"id", "lower", "upper", "size"};
  std::array<size_t, 4> where{};
  PackTable table;
  std::string text;
  for (int64_t line = 1; std::getline(in, text); ++line) {
    const std::vector<std::string_view> cells = split(text);
    if (line == 1) {
      for (size_t c = 0; c < kColumns.size(); ++c) {
        where[c] = static_cast<size_t>(std::find(cells.begin(), cells.end(), kColumns[c]) - cells.begin());
        if (where[c] == cells.size()) refuse(line, fmt::format("column '{}' is missing", kColumns[c]));
      }
      continue;
    }
    if (cells.size() == 1 && cells[0].empty()) continue;
    for (const size_t column : where)
      if (column >= cells.size()) refuse(line, "it has too few columns");
    const PackItem item{parse_cell(line, "lower", cells[where[1]]), parse_cell(line, "upper", cells[where[2]]),
                        parse_cell(line, "size", cells[where[3]])};
    if (item.size < 0) refuse(line, "size is below zero");
    if (item.lower >= item.upper) refuse(line, "lower is not below upper");
    table.ids.emplace_back(cells[where[0]]);
    table.items.push_back(item);
  }
  return table;
}

void write_packing_csv(std::ostream& out, const PackTable& table, const Packing& packing) {
  out << "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < table.items.size(); ++i)
    out << fmt::format("{},{},{},{},{}\n", table.ids[i], table.items[i].lower, table.items[i].upper,
                       table.items[i].size, packing.offsets[i]);
}

}  // namespace plimsoll::plan
