// The best that this machine does right now: what a profile measures kernels against.
#pragma once

#include <plimsoll/types.h>
#include "lower/predict.h"

namespace plimsoll::train {

// The best of a matrix product and a convolution, and a copy, on all threads; takes at most `most_bytes` (or the
// megabyte that the smallest product needs) and gives them back. Copies of less than the caches hold are faster than
// memory.
lower::MachineSpeed measure_peak(Bytes most_bytes);

}  // namespace plimsoll::train
