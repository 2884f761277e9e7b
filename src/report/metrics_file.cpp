#include "report/metrics_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>

namespace plimsoll::report {
namespace {

constexpr const char* kEpoch = "epoch";
constexpr const char* kStep = "step";

// Counts, as bytes are, are written without a point.
nlohmann::ordered_json json_number(double value) {
  constexpr double kLargestCount = 1LL << 53;
  if (!std::isfinite(value)) return nullptr;
  if (std::trunc(value) == value && std::abs(value) < kLargestCount) return static_cast<int64_t>(value);
  return value;
}

std::string csv_number(double value) { return std::isnan(value) ? "NA" : fmt::format("{}", value); }

bool is_behind(int64_t row_epoch, int64_t row_step, int64_t step, int64_t epoch) {
  return row_step > step || (row_step == step && row_epoch >= epoch);
}

}  // namespace

bool is_higher_better(std::string_view metric) {
  for (const std::string_view word : {"accuracy", "precision", "recall", "auc", "top_"})
    if (metric.find(word) != std::string_view::npos) return true;
  return false;
}

MetricsCsv::MetricsCsv(const std::string& path, AppendFile::Content content, char separator)
    : file_(path, content), separator_(separator) {
  if (file_.is_empty()) return;
  for_each_line(path, [&](std::string_view line, Bytes) {
    columns_ = split(line);
    return false;
  });
  if (columns_.size() < 2 || columns_[0] != kEpoch || columns_[1] != kStep)
    throw Error(fmt::format("{}: can't be appended to: it does not start with the columns epoch and step; give another "
                            "name",
                            path),
                ErrorKind::BadData);
  columns_.erase(columns_.begin(), columns_.begin() + 2);
}

std::vector<std::string> MetricsCsv::split(std::string_view line) const {
  std::vector<std::string> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(separator_, begin), line.size());
    fields.emplace_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

void MetricsCsv::write_header(const MetricsRow& row) {
  std::vector<std::string> names;
  for (const MetricValue& metric : row.values) {
    if (metric.name.find_first_of(std::string("\"\r\n") + separator_) != std::string::npos)
      throw Error(fmt::format("metric '{}' can't be a column of a CSV file; give it a name without quotes, separators "
                              "and ends of lines",
                              metric.name),
                  ErrorKind::Usage);
    names.push_back(metric.name);
  }
  std::ranges::sort(names);
  std::vector<std::string> all{kEpoch, kStep};
  all.insert(all.end(), names.begin(), names.end());
  file_.append(fmt::format("{}", fmt::join(all, std::string_view(&separator_, 1))));
  columns_ = std::move(names);
}

void MetricsCsv::append(const MetricsRow& row) {
  if (file_.is_empty()) write_header(row);
  std::vector<std::string> fields(columns_.size(), "NA");
  for (const MetricValue& metric : row.values) {
    const auto column = std::ranges::find(columns_, metric.name);
    if (column == columns_.end())
      throw Error(fmt::format("'{}' has no column '{}'; give another file to runs with other metrics", file_.path(),
                              metric.name),
                  ErrorKind::Usage);
    fields[static_cast<size_t>(column - columns_.begin())] = csv_number(metric.value);
  }
  std::string line = fmt::format("{}{}{}", row.epoch, separator_, row.step);
  for (const std::string& field : fields) line += separator_ + field;
  file_.append(line);
}

void MetricsCsv::truncate_after(int64_t step, int64_t epoch) {
  bool is_header = true;
  file_.cut_from([&](std::string_view line) {
    if (std::exchange(is_header, false)) return false;
    const std::vector<std::string> fields = split(line);
    const auto number = [&](size_t column) {
      int64_t found = std::numeric_limits<int64_t>::max();  // a damaged row is cut off
      if (fields.size() > column)
        std::from_chars(fields[column].data(), fields[column].data() + fields[column].size(), found);
      return found;
    };
    return is_behind(number(0), number(1), step, epoch);
  });
}

MetricsJson::MetricsJson(const std::string& path, AppendFile::Content content) : file_(path, content) {}

void MetricsJson::append(const MetricsRow& row) { file_.append(to_json_line(row)); }

void MetricsJson::truncate_after(int64_t step, int64_t epoch) {
  file_.cut_from([&](std::string_view line) {
    try {
      const MetricsRow row = parse_json_line(line, file_.path());
      return is_behind(row.epoch, row.step, step, epoch);
    } catch (const Error&) {
      return true;  // a damaged row is cut off
    }
  });
}

std::string to_json_line(const MetricsRow& row) {
  nlohmann::ordered_json line{{kEpoch, row.epoch}, {kStep, row.step}};
  for (const MetricValue& metric : row.values) line[metric.name] = json_number(metric.value);
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

MetricsRow parse_json_line(std::string_view line, const std::string& place) {
  const auto object = nlohmann::ordered_json::parse(line, nullptr, false);
  const auto is_count = [&](const char* name) { return object.contains(name) && object[name].is_number_integer(); };
  if (!object.is_object() || !is_count(kEpoch) || !is_count(kStep))
    throw Error(fmt::format("{}: '{}' is no line of metrics with an epoch and a step", place, line.substr(0, 60)),
                ErrorKind::BadData);
  MetricsRow row{object[kEpoch], object[kStep]};
  for (const auto& [name, value] : object.items()) {
    if (name == kEpoch || name == kStep) continue;
    if (!value.is_number() && !value.is_null())
      throw Error(fmt::format("{}: '{}' of epoch {} is no number", place, name, row.epoch), ErrorKind::BadData);
    row.values.push_back({name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
  }
  return row;
}

}  // namespace plimsoll::report
