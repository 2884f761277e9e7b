// Rows of a CSV file as numbers, by their number: read in one pass or in any order through an index of rows.
#pragma once

#include <memory>
#include <string>

#include <plimsoll/formats.h>
#include "input/files/label_source.h"
#include "input/files/table.h"

namespace plimsoll::input {

// Reads the file once: every row has as many fields as the first. Throws Error(BadData) that names file, row (the
// header is row 1) and column; Error(Usage) for columns that are not there.
std::unique_ptr<Table> open_csv(const std::string& path, const CsvOptions& options = {}, const LabelBound& bound = {});

}  // namespace plimsoll::input
