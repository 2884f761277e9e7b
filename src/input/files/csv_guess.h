// Finds out how a CSV file is written: separator, header, types of the columns.
#pragma once

#include <string>

#include <plimsoll/formats.h>

namespace plimsoll::input {

// By the first rows; each column is a field of its own. Throws Error(BadData) for a file without a row.
CsvOptions guess_csv(const std::string& path, const std::string& scratch_dir = {});

}  // namespace plimsoll::input
