#include "kernels/moments_over_ranks.h"

#include <bit>

namespace plimsoll::kernels {
namespace {

// Combines first and second into result, which is one of the two. Both ranks of a pair combine in the same order, so
// that they get the same bits.
void combine_pair(const float* first, const float* second, int64_t channels, float* result) noexcept {
  const double of_first = static_cast<double>(first[2 * channels]),
               of_second = static_cast<double>(second[2 * channels]);
  const double all = of_first + of_second;
  if (all == 0) return;
  for (int64_t c = 0; c < channels; ++c) {
    const double off = static_cast<double>(second[c]) - static_cast<double>(first[c]);
    const double mean = static_cast<double>(first[c]) + off * (of_second / all);
    const double squares = static_cast<double>(first[channels + c]) + static_cast<double>(second[channels + c]) +
                           off * off * (of_first * of_second / all);
    result[c] = static_cast<float>(mean);
    result[channels + c] = static_cast<float>(squares);
  }
  result[2 * channels] = static_cast<float>(all);
}

}  // namespace

bool combine_over_ranks(Network& network, float* moments, int64_t channels, float* received) noexcept {
  const int rank = network.rank(), size = network.size();
  const int even = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const Bytes bytes = moments_length(channels) * Bytes{sizeof(float)};
  if (rank >= even)
    return network.exchange(rank - even, moments, bytes, nullptr, 0) &&
           network.exchange(rank - even, nullptr, 0, moments, bytes);
  const int beyond = rank + even;
  if (beyond < size) {
    if (!network.exchange(beyond, nullptr, 0, received, bytes)) return false;
    combine_pair(moments, received, channels, moments);
  }
  for (int distance = 1; distance < even; distance *= 2) {
    const int peer = rank ^ distance;
    if (!network.exchange(peer, moments, bytes, received, bytes)) return false;
    if (rank < peer)
      combine_pair(moments, received, channels, moments);
    else
      combine_pair(received, moments, channels, moments);
  }
  return beyond >= size || network.exchange(beyond, moments, bytes, nullptr, 0);
}

}  // namespace plimsoll::kernels
