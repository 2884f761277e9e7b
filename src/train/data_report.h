// What `inspect` says of data, as JSON.
#pragma once

#include <string>

#include "data/detect.h"
#include "data/summary.h"

namespace plimsoll::train {

std::string data_json(const data::DataFacts& facts, const data::TableSummary& summary, int indent);

}  // namespace plimsoll::train
