// A permutation of [0, n) computed index by index, in constant memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace plimsoll::input {

// A Feistel network over the next power of two, walked until it lands below n. Another seed or epoch, another order.
class Permutation {
 public:
  Permutation(int64_t n, uint64_t seed, int64_t epoch);
  int64_t size() const { return n_; }
  int64_t operator()(int64_t i) const;  // for 0 <= i < n
  // The values of first, first + 1, ...: several times as fast as one by one.
  void fill(int64_t first, std::span<int64_t> places) const;

 private:
  static constexpr int kRounds = 8;
  uint64_t mix(uint64_t value) const;  // of the next power of two

  int64_t n_;
  int low_bits_;
  uint64_t low_mask_, high_mask_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace plimsoll::input
