// Metrics of a training, one line for each epoch: as CSV and as JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/line_file.h"

namespace plimsoll::report {

struct MetricValue {
  std::string name;
  double value = 0;  // NaN: not measured
};

struct MetricsRow {
  int64_t epoch = 0;  // from 1
  int64_t step = 0;   // training steps so far
  std::vector<MetricValue> values = {};
};

// True for accuracy, precision, recall, auc and top_..., of which more is better; else less is.
bool is_higher_better(std::string_view metric);

using memory::AppendFile;

// As Keras' CSVLogger: a header, then a row for each epoch, the epoch first and metrics in order of their names; "NA"
// for what was not measured. The second column is the step. After kill -9 every row is there as a whole or absent.
class MetricsCsv {
 public:
  static constexpr Bytes kBytes = LineFile::kBytes;

  // A file that is kept keeps its columns. Throws Error(BadData) for one that is no such CSV.
  explicit MetricsCsv(const std::string& path, AppendFile::Content content = AppendFile::Content::Dropped,
                      char separator = ',');
  // The first row decides on the columns. Throws Error(Usage) for a metric that has none, DiskFull when the disk is
  // full.
  void append(const MetricsRow& row);
  // Drops the rows of later steps, and at that step those from `epoch` on, which is then still to be ended: for a run
  // that goes on from a checkpoint.
  void truncate_after(int64_t step, int64_t epoch);

 private:
  std::vector<std::string> split(std::string_view line) const;
  void write_header(const MetricsRow& row);

  LineFile file_;
  const char separator_;
  std::vector<std::string> columns_;  // after epoch and step
};

// {"epoch":1,"step":469,"loss":0.5,"val_loss":null}: one object a line, null for what was not measured.
class MetricsJson {
 public:
  static constexpr Bytes kBytes = LineFile::kBytes;

  explicit MetricsJson(const std::string& path, AppendFile::Content content = AppendFile::Content::Dropped);
  void append(const MetricsRow& row);
  void truncate_after(int64_t step, int64_t epoch);

 private:
  LineFile file_;
};
std::string to_json_line(const MetricsRow& row);
// Throws Error(BadData) for a line that is none of MetricsJson's; `place` is for the message.
MetricsRow parse_json_line(std::string_view line, const std::string& place);

}  // namespace plimsoll::report
