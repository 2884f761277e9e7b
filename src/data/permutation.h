// A shuffled order of [0, n) computed index by index: perfect, and in constant memory.
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll::data {

// A Feistel network over the next power of two, walked until it lands below n. Another seed or epoch, another order.
class Permutation {
 public:
  Permutation(int64_t n, uint64_t seed, int64_t epoch);
  int64_t size() const { return n_; }
  int64_t operator()(int64_t i) const;  // for 0 <= i < n

 private:
  static constexpr int kRounds = 8;

  int64_t n_;
  int low_bits_;
  uint64_t low_mask_, high_mask_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace plimsoll::data
