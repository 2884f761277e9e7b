// Rows of a CSV file as numbers, by their number: read in one pass or in any order through an index of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/bytes.h>
#include "data/formats/csv_row.h"
#include "data/formats/sparse_index.h"
#include "data/table.h"

namespace plimsoll::data {

enum class CsvType : uint8_t {
  Float,     // f32
  Integer,   // i64
  Category,  // i64: the number of the text among all texts of the column, sorted
};

struct CsvColumn {
  std::string column;  // its name in the header, or its number from 0
  CsvType type = CsvType::Float;
  std::string field = {};  // columns of one field stand in one vector; empty: a field of its own, one number
};

struct CsvOptions {
  CsvSyntax syntax = {};
  bool has_header = true;
  // Empty: the label is the field "y", and all other columns are floats of the field "x".
  std::vector<CsvColumn> columns = {};
  std::string label = {};  // a column that is never empty or NaN; empty: none
  // Of a label that `columns` does not name. Nothing: what the first rows look like.
  std::optional<CsvType> label_type = std::nullopt;
  std::optional<double> missing = std::nullopt;  // for empty fields of numbers; nothing: they are refused
  std::string scratch_dir = {};                  // for .gz, as in SourceOptions
  Bytes index_bytes = SparseIndex::kBytes;
  Bytes longest_row = MiB;
  Bytes category_bytes = 4 * MiB;  // of the names of all categories
};

// Reads the file once: every row has as many fields as the first. Throws Error(BadData) that names file, row (the
// header is row 1) and column; Error(Usage) for columns that are not there.
std::unique_ptr<Table> open_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace plimsoll::data
