// The largest eager values, as text for the line's report.
#pragma once

#include <string>
#include <vector>

#include <plimsoll/error.h>
#include "eager/value.h"

namespace plimsoll::eager {

std::vector<Holder> largest_holders(const std::vector<EagerValue*>& values);
// A line for each of the largest: bytes, operator, type, age, and where the program made it.
std::string describe_values(const std::vector<EagerValue*>& values, int64_t now);

}  // namespace plimsoll::eager
