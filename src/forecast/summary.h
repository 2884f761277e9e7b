// The table of a model's layers, as text.
#pragma once

#include <string>

#include "train/spec.h"

namespace plimsoll::forecast {

// Plans the spec; where it does not fit, the smallest line that works. Throws DoesNotFit where there is none.
std::string summarise(const train::Spec& spec);

}  // namespace plimsoll::forecast
