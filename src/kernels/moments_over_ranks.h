// Statistics of a batch of which each rank has some samples: every rank ends with the same bits.
#pragma once

#include <cstdint>

#include "kernels/network.h"

namespace plimsoll::kernels {

// Means of the channels; for each channel the sum over samples of squared distances from the mean, averaged over
// pixels; the number of samples. These combine without the loss of digits that sums of squares have.
constexpr int64_t moments_length(int64_t channels) { return 2 * channels + 1; }

// Combines the moments of all ranks in the tree of sum_over_ranks. `received` has room for as many numbers. False: an
// exchange failed, and the moments are garbage.
bool combine_over_ranks(Network& network, float* moments, int64_t channels, float* received) noexcept;

}  // namespace plimsoll::kernels
