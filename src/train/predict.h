// What a model makes of data, batch by batch.
#pragma once

#include <functional>
#include <limits>

#include "train/inputs.h"

namespace plimsoll::train {

using TakeOutputs = std::function<void(const Results& outputs, int64_t samples)>;

// Batches until there are no more, or at least so many samples were seen. What `take` throws ends it.
void predict(Training& training, Inputs& inputs, const TakeOutputs& take,
             int64_t most_samples = std::numeric_limits<int64_t>::max());

}  // namespace plimsoll::train
