// How a table of files becomes a dataset: an origin of numbers, and a map in which each thread reads with its own
// reader.
#pragma once

#include <memory>
#include <string>

#include <plimsoll/dataset.h>
#include "input/files/table.h"

namespace plimsoll::input {

// `text` names the source: "csv(a.csv)".
Dataset from_table(const std::shared_ptr<const Table>& table, const std::string& text, int threads);

}  // namespace plimsoll::input
