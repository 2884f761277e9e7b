// What `inspect` says of data, as JSON.
#pragma once

#include <string>

#include "input/opening/detect.h"
#include "input/opening/summary.h"

namespace plimsoll::input {

std::string data_json(const DataFacts& facts, const TableSummary& summary, int indent);

}  // namespace plimsoll::input
