// What a layout pads, found by a reorder of oneDNN and not by code of ours.
#pragma once

#include <vector>

#include "ops/evaluate.h"

namespace plimsoll::testing {

// By place in the buffer of a value of that type: whether it is padding.
std::vector<bool> find_padding(const ConcreteType& type);

}  // namespace plimsoll::testing
