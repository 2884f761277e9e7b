// Loss and accuracy over a whole data set.
#pragma once

#include "cli/inputs.h"

namespace plimsoll {

struct Score {
  double loss = 0;
  double accuracy = 0;  // NaN where the model counts no right answers
  int64_t samples = 0;
  bool stopped = false;
};

Score evaluate(Workload& load, Inputs& inputs);

}  // namespace plimsoll
