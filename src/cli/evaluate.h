// Loss and accuracy over a whole data set.
#pragma once

#include "cli/inputs.h"

namespace plimsoll::cli {

struct Score {
  double loss = 0;
  double accuracy = 0;  // NaN where the model counts no right answers
  int64_t samples = 0;
  bool stopped = false;
};

// The step for what is left when the samples are no multiple of the batch; the session must not be open yet.
void plan_last_batch(Workload& load, const Inputs& inputs);

Score evaluate(Workload& load, Inputs& inputs);

}  // namespace plimsoll::cli
