#include "input/opening/summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "input/files/convert.h"

namespace plimsoll::input {
namespace {

// i64 keeps more digits as f64 than the conversion to f32 would.
double number_at(const TableField& field, const std::byte* values, int64_t i) {
  const std::byte* const place = values + i * size_of(field.dtype);
  if (field.dtype == DType::I64) {
    int64_t value;
    std::memcpy(&value, place, sizeof value);
    return static_cast<double>(value);
  }
  float value = 0;
  convert(field.dtype, place, {}, &value, 1);
  return value;
}

struct Sums {
  double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0;
  int64_t count = 0, nan_count = 0;
  void add(double value) {
    if (std::isnan(value)) {
      ++nan_count;
      return;
    }
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
    ++count;
  }
};

}  // namespace

TableSummary summarise(const Table& table) {
  const std::vector<TableField>& fields = table.fields();
  TableSummary summary{.elements = std::min(table.elements(), kSummarisedElements), .fields = {}};
  std::vector<std::unique_ptr<std::byte[]>> values;
  std::vector<std::byte*> places;
  for (const TableField& field : fields) {
    values.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(field.bytes())));
    places.push_back(values.back().get());
    summary.fields.push_back({.field = field, .first = {}});
  }
  std::vector<Sums> sums(fields.size());
  const auto reader = table.open_reader();
  for (int64_t i = 0; i < std::min(table.elements(), kShownElements); ++i) {
    reader->read(i, places);
    for (size_t f = 0; f < fields.size(); ++f) {
      auto& numbers = summary.fields[f].first.emplace_back();
      for (int64_t n = 0; n < std::min(fields[f].elements(), kShownNumbers); ++n)
        numbers.push_back(number_at(fields[f], places[f], n));
    }
  }
  for (int64_t i = 0; i < summary.elements; ++i) {
    reader->read(static_cast<int64_t>(static_cast<double>(i) * static_cast<double>(table.elements()) /
                                      static_cast<double>(summary.elements)),
                 places);
    for (size_t f = 0; f < fields.size(); ++f)
      for (int64_t n = 0; n < fields[f].elements(); ++n) sums[f].add(number_at(fields[f], places[f], n));
  }
  for (size_t f = 0; f < fields.size(); ++f) {
    FieldSummary& field = summary.fields[f];
    field.nan_count = sums[f].nan_count;
    if (sums[f].count == 0) continue;
    field.least = sums[f].least;
    field.most = sums[f].most;
    field.mean = sums[f].sum / static_cast<double>(sums[f].count);
  }
  return summary;
}

std::string describe(const TableSummary& summary) {
  const auto shown = std::span(summary.fields).first(std::min(summary.fields.size(), kShownFields));
  const size_t hidden = summary.fields.size() - shown.size();
  const std::string rest = hidden > 0 ? fmt::format("  ... and {} more fields\n", hidden) : "";
  std::string text = fmt::format("over {} elements:\n", summary.elements);
  for (const FieldSummary& field : shown) {
    text += fmt::format("  {:<16} least {:.6g}, mean {:.6g}, most {:.6g}", field.field.name, field.least, field.mean,
                        field.most);
    text += field.nan_count > 0 ? fmt::format(", {} not a number\n", field.nan_count) : "\n";
  }
  text += rest;
  for (size_t i = 0; !shown.empty() && i < shown[0].first.size(); ++i) {
    text += fmt::format("element {}:\n", i);
    for (const FieldSummary& field : shown)
      text += fmt::format("  {:<16} {:.6g}{}\n", field.field.name, fmt::join(field.first[i], " "),
                          field.field.elements() > kShownNumbers ? " ..." : "");
    text += rest;
  }
  return text;
}

}  // namespace plimsoll::input
