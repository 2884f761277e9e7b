// Stripping: weights with many zeros are stored as a mask of bits and the values that are not zero, on the disk and in
// memory. A model directory becomes another one.
#pragma once

#include <string>

#include <plimsoll/shrink.h>
#include "store/model_file.h"

namespace plimsoll::shrink {

// What stripping holds in memory beside the graph of the model.
constexpr Bytes kStripBytes = 8 * MiB;

// The result predicts and is evaluated, but is not trained. Throws Error(Usage) for a model without a weight that would
// be smaller so, or one that is stripped; Error(BadData) for what is damaged.
StripReport strip_model(const std::string& from, const std::string& to);

// Whether some of its weights are stored as mask and values.
bool is_stripped(const model::TracedModel& traced);
// Whether some of its weights are int8.
bool is_quantised(const model::TracedModel& traced);

// What the variables that inference reads take in memory, and as a file.
ModelBytes bytes_of(const model::TracedModel& traced);

}  // namespace plimsoll::shrink
