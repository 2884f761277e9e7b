#include "kernels/sum_over_ranks.h"

#include <algorithm>
#include <array>
#include <bit>

namespace plimsoll::kernels {
namespace {

constexpr int64_t kSmall = 1024;  // so many elements or fewer are sent whole, in half as many messages

struct Range {
  int64_t first, count;
};

class PieceSum {
 public:
  PieceSum(Network& network, int ranks, float* array, int64_t count, float* buffer)
      : network_(network), rank_(network.rank()), ranks_(ranks), array_(array), count_(count), buffer_(buffer) {}

  bool run() noexcept { return count_ <= kSmall ? run_whole() : run_halves(); }

 private:
  bool run_whole() noexcept {
    for (int distance = 1; distance < ranks_; distance *= 2) {
      if (!exchange(rank_ ^ distance, {0, count_}, buffer_, count_)) return false;
      add({0, count_});
    }
    return true;
  }

  // Each exchange halves what a rank goes on with; then the parts are gathered again in the opposite order.
  bool run_halves() noexcept {
    std::array<Range, 32> kept{};
    Range mine{0, count_};
    int level = 0;
    for (int distance = 1; distance < ranks_; distance *= 2) {
      kept[static_cast<size_t>(level++)] = mine;
      const Range low{mine.first, mine.count / 2}, high{mine.first + low.count, mine.count - low.count};
      const bool takes_high = (rank_ & distance) != 0;
      mine = takes_high ? high : low;
      if (!exchange(rank_ ^ distance, takes_high ? low : high, buffer_, mine.count)) return false;
      add(mine);
    }
    for (int distance = ranks_ / 2; distance > 0; distance /= 2) {
      const Range whole = kept[static_cast<size_t>(--level)];
      const bool has_high = (rank_ & distance) != 0;
      const Range other = has_high ? Range{whole.first, whole.count - mine.count}
                                   : Range{mine.first + mine.count, whole.count - mine.count};
      if (!exchange(rank_ ^ distance, mine, array_ + other.first, other.count)) return false;
      mine = whole;
    }
    return true;
  }

  bool exchange(int peer, Range send, float* receive, int64_t received) noexcept {
    return network_.exchange(peer, array_ + send.first, send.count * Bytes{sizeof(float)}, receive,
                             received * Bytes{sizeof(float)});
  }
  void add(Range range) noexcept {
    float* const to = array_ + range.first;
    for (int64_t i = 0; i < range.count; ++i) to[i] += buffer_[i];
  }

  Network& network_;
  const int rank_, ranks_;
  float* const array_;
  const int64_t count_;
  float* const buffer_;
};

bool sum_piece(Network& network, float* array, int64_t count, float* buffer) noexcept {
  const int rank = network.rank(), even = static_cast<int>(std::bit_floor(static_cast<unsigned>(network.size())));
  const Bytes bytes = count * Bytes{sizeof(float)};
  if (rank >= even)
    return network.exchange(rank - even, array, bytes, nullptr, 0) &&
           network.exchange(rank - even, nullptr, 0, array, bytes);
  const int beyond = rank + even;
  if (beyond < network.size()) {
    if (!network.exchange(beyond, nullptr, 0, buffer, bytes)) return false;
    for (int64_t i = 0; i < count; ++i) array[i] += buffer[i];
  }
  if (!PieceSum(network, even, array, count, buffer).run()) return false;
  return beyond >= network.size() || network.exchange(beyond, array, bytes, nullptr, 0);
}

}  // namespace

bool sum_over_ranks(Network& network, float* array, int64_t count, float* buffer, int64_t buffer_count) noexcept {
  if (network.size() == 1) return true;
  for (int64_t first = 0; first < count; first += buffer_count)
    if (!sum_piece(network, array + first, std::min(buffer_count, count - first), buffer)) return false;
  return true;
}

}  // namespace plimsoll::kernels
