// The best that this machine does right now: what a profile measures kernels against.
#pragma once

#include <plimsoll/types.h>
#include "lower/predict.h"

namespace plimsoll::forecast {

// FLOP/s of the faster of a matrix product and a convolution, and bytes/s of a copy, on all threads. Takes at most
// `most_bytes` (or the megabyte that the smallest product needs) and frees them. With few bytes the copy stays in
// caches and is faster than memory.
lower::MachineSpeed measure_peak(Bytes most_bytes);

}  // namespace plimsoll::forecast
