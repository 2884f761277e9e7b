// Loss and metrics over a whole data set.
#pragma once

#include <vector>

#include <plimsoll/callback.h>
#include "train/inputs.h"

namespace plimsoll::train {

struct Score {
  std::vector<LogValue> values;  // means over the samples: the loss, then the metrics
  int64_t samples = 0;
  bool stopped = false;
  double value(std::string_view name) const;  // NaN: the model has no such metric
};

struct EvaluateOptions {
  StopQuestion is_stop_asked = never_stops;  // between batches
  int64_t most_steps = 0;                    // 0: all
};
// Throws Error(BadData or BadNumbers) when a loss is not finite.
Score evaluate(Training& training, Inputs& inputs, const EvaluateOptions& options = {});

}  // namespace plimsoll::train
