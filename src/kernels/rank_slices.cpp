#include "kernels/rank_slices.h"

#include <bit>
#include <cstring>

#include "kernels/sum_over_ranks.h"

namespace plimsoll::kernels {
namespace {

bool is_power_of_two(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

class Gather {
 public:
  Gather(Network& network, float* array, int64_t count, int64_t length)
      : network_(network), array_(array), count_(count), length_(length) {}

  // What a rank has doubles with each exchange.
  bool run_doubling() noexcept {
    const int rank = network_.rank();
    for (int distance = 1; distance < network_.size(); distance *= 2) {
      const int mine = rank & ~(distance - 1), peer = rank ^ distance, theirs = peer & ~(distance - 1);
      if (!exchange(peer, mine, theirs, distance)) return false;
    }
    return true;
  }

  // All pairs. One global order prevents deadlock.
  bool run_pairs() noexcept {
    const int rank = network_.rank();
    for (int a = 0; a < network_.size(); ++a)
      for (int b = a + 1; b < network_.size(); ++b) {
        if (rank != a && rank != b) continue;
        const int peer = rank == a ? b : a;
        if (!exchange(peer, rank, peer, 1)) return false;
      }
    return true;
  }

 private:
  RankSlice slices(int first, int ranks) const noexcept {
    const int64_t begin = std::min(count_, first * length_), end = std::min(count_, (first + ranks) * length_);
    return {begin, end - begin};
  }
  bool exchange(int peer, int mine, int theirs, int ranks) noexcept {
    const RankSlice send = slices(mine, ranks), receive = slices(theirs, ranks);
    if (send.count == 0 && receive.count == 0) return true;
    return network_.exchange(peer, array_ + send.first, send.count * Bytes{sizeof(float)}, array_ + receive.first,
                             receive.count * Bytes{sizeof(float)});
  }

  Network& network_;
  float* const array_;
  const int64_t count_, length_;
};

int reversed_bits(int number, int bits) {
  int reversed = 0;
  for (int i = 0; i < bits; ++i) reversed |= (number >> i & 1) << (bits - 1 - i);
  return reversed;
}

// Elements [first, first + width) of every slice, side by side. Recursive halving leaves a rank with the place whose
// number has the bits of the rank in reverse.
class StagedSlices {
 public:
  StagedSlices(Network* network, const float* array, int64_t count, int64_t length, float times, float* staged)
      : network_(network),
        ranks_(network != nullptr ? network->size() : 1),
        bits_(std::countr_zero(static_cast<unsigned>(ranks_))),
        array_(array),
        count_(count),
        length_(length),
        times_(times),
        staged_(staged) {}

  bool sum(int64_t first, int64_t width, float* received) noexcept {
    for (int rank = 0; rank < ranks_; ++rank) stage(rank, first, width);
    if (ranks_ == 1) return true;
    if (!is_power_of_two(ranks_))
      return sum_over_ranks(*network_, staged_, ranks_ * width, received, (ranks_ * width + 1) / 2);
    int64_t begin = 0, size = ranks_ * width;
    for (int distance = 1; distance < ranks_; distance *= 2) {
      size /= 2;
      const bool takes_high = (network_->rank() & distance) != 0;
      const int64_t kept = takes_high ? begin + size : begin, sent = takes_high ? begin : begin + size;
      const Bytes bytes = size * Bytes{sizeof(float)};
      if (!network_->exchange(network_->rank() ^ distance, staged_ + sent, bytes, received, bytes)) return false;
      for (int64_t i = 0; i < size; ++i) staged_[kept + i] += received[i];
      begin = kept;
    }
    return true;
  }

  const float* own(int64_t width) const noexcept {
    return staged_ + place_of(network_ != nullptr ? network_->rank() : 0) * width;
  }

 private:
  int64_t place_of(int rank) const noexcept { return is_power_of_two(ranks_) ? reversed_bits(rank, bits_) : rank; }

  // Adding zero turns -0 into 0: other ways to sum begin with 0 and so never give -0.
  void stage(int rank, int64_t first, int64_t width) noexcept {
    float* const to = staged_ + place_of(rank) * width;
    const int64_t begin = std::min(count_, rank * length_ + first);
    const int64_t there = std::min(width, std::max<int64_t>(0, std::min(count_, (rank + 1) * length_) - begin));
    for (int64_t i = 0; i < there; ++i) to[i] = array_[begin + i] * times_ + 0.0F;
    std::fill(to + there, to + width, 0.0F);
  }

  Network* const network_;
  const int ranks_, bits_;
  const float* const array_;
  const int64_t count_, length_;
  const float times_;
  float* const staged_;
};

}  // namespace

bool gather_over_ranks(Network& network, float* array, int64_t count, int64_t length) noexcept {
  Gather gather(network, array, count, length);
  return is_power_of_two(network.size()) ? gather.run_doubling() : gather.run_pairs();
}

bool sum_into_slices(Network* network, const float* array, int64_t count, int64_t length, float times, float* slice,
                     float* buffer, int64_t buffer_count) noexcept {
  const int64_t ranks = network != nullptr ? network->size() : 1;
  const int64_t at_once = std::min(length, buffer_count * 2 / 3 / ranks);
  StagedSlices staged(network, array, count, length, times, buffer);
  for (int64_t first = 0; first < length; first += at_once) {
    const int64_t width = std::min(at_once, length - first);
    if (!staged.sum(first, width, buffer + ranks * width)) return false;
    const float* const own = staged.own(width);
    for (int64_t i = 0; i < width; ++i) slice[first + i] += own[i];
  }
  return true;
}

int64_t slices_buffer(int64_t length, int64_t ranks) {
  const int64_t at_once = std::max<int64_t>(1, std::min(length, kMostReceived / ranks));
  return ranks * at_once * 3 / 2 + 3;
}

}  // namespace plimsoll::kernels
