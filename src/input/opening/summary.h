// The first elements of a table and simple statistics over some of them, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "input/files/table.h"

namespace plimsoll::input {

struct FieldSummary {
  TableField field;
  double least = 0, mean = 0, most = 0;  // of the numbers that are not NaN
  int64_t nan_count = 0;
  std::vector<std::vector<double>> first;  // of the first elements, the first numbers
};

struct TableSummary {
  int64_t elements = 0;  // that were looked at
  std::vector<FieldSummary> fields;
};

constexpr int64_t kSummarisedElements = 1000, kShownElements = 3;
constexpr int64_t kShownNumbers = 8;
constexpr size_t kShownFields = 20;

// Of elements spread evenly over the table, and of the first ones. Throws Error(BadData).
TableSummary summarise(const Table& table);

// One line for each field, and the first elements below.
std::string describe(const TableSummary& summary);

}  // namespace plimsoll::input
