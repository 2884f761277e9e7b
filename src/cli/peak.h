// The best that this machine does right now: what profile and doctor measure kernels against.
#pragma once

#include "base/bytes.h"
#include "lower/predict.h"

namespace plimsoll {

// A short matrix product and a copy on all threads, the best of several; takes at most `most_bytes` and gives them
// back. Copies of less than the caches hold are faster than memory.
MachineSpeed measure_peak(Bytes most_bytes);

}  // namespace plimsoll
