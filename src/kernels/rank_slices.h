// How ranks share an array: each owns a slice of it, of the same length but for the last ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/network.h"

namespace plimsoll::kernels {

struct RankSlice {
  int64_t first = 0, count = 0;
};

// A multiple of 16 floats, so that slices begin where cache lines do.
constexpr int64_t slice_length(int64_t count, int64_t ranks) { return ((count + ranks - 1) / ranks + 15) / 16 * 16; }

// What a rank has of `count` elements; the last ranks may have less than the length, or nothing.
constexpr RankSlice slice_of_rank(int64_t count, int64_t length, int64_t rank) {
  const int64_t first = std::min(count, rank * length);
  return {first, std::min(length, count - first)};
}

// Every rank has its own slice at its place in the array, and all slices afterwards. Nothing is received elsewhere.
// False: an exchange failed.
bool gather_over_ranks(Network& network, float* array, int64_t count, int64_t length) noexcept;

// slice += this rank's slice of the sum of times x array over all ranks, in the tree of sum_over_ranks. `buffer` has
// room for `buffer_count` elements: two thirds for what is summed at once, one third for what is received.
bool sum_into_slices(Network* network, const float* array, int64_t count, int64_t length, float times, float* slice,
                     float* buffer, int64_t buffer_count) noexcept;
// Elements of the buffer with which an array is summed in one piece, or in pieces so large that cutting costs no time.
int64_t slices_buffer(int64_t length, int64_t ranks);

}  // namespace plimsoll::kernels
