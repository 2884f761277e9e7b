// Loss and accuracy over a whole data set.
#pragma once

#include "train/inputs.h"

namespace plimsoll::train {

struct Score {
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // NaN where the model counts no right answers
  int64_t samples = 0;
  bool stopped = false;
};

// Plans the step for what is left when the samples are no multiple of the batch; the session must not be open yet.
void plan_last_batch(Training& training, const Inputs& inputs);

// Throws Error(BadData or BadNumbers) when a loss is not finite.
Score evaluate(Training& training, Inputs& inputs, const StopQuestion& is_stop_asked = never_stops);

}  // namespace plimsoll::train
