// Adds up an array over all ranks: every rank ends with the same bits.
#pragma once

#include <cstdint>

#include "kernels/network.h"

namespace plimsoll::kernels {

// Elements that are received at once, at most: more do not make it faster.
constexpr int64_t kMostReceived = 512 * 1024;

// The sum of rank r and rank r+1 (r even) is added to that of the next two, and so on: a tree that does not depend on
// the sizes of messages. Ranks beyond a power of two first add their arrays to those of the first ranks. What others
// send is received in `buffer`, of as many elements as are exchanged at once. False: an exchange failed, and the array
// is garbage.
bool sum_over_ranks(Network& network, float* array, int64_t count, float* buffer, int64_t buffer_count) noexcept;

}  // namespace plimsoll::kernels
