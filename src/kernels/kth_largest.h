// The k-th largest of many floats that are not negative, by histograms of their bits: exact, in bounded memory, without
// a sorted copy. Counts are whole numbers, so the answer does not depend on the number of threads.
#pragma once

#include <bit>
#include <cstring>

#include <plimsoll/types.h>
#include "kernels/parallel.h"

namespace plimsoll::kernels {

// Floats without a sign are ordered as their bits are.
inline uint32_t magnitude_bits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffU; }

class KthLargest {
 public:
  KthLargest() : slots_(thread_slots()) {}
  Bytes workspace_bytes() const { return slots_ * kBins * static_cast<Bytes>(sizeof(int64_t)); }

  // The bits of the k-th largest. `visit(first, last, put)` calls put(bits) for each value of the items [first, last)
  // of `items`; all items have at least k values together, and k is at least 1. Each item is visited three times.
  template <class Visit>
  uint32_t find(int64_t items, int64_t grain, int64_t k, void* workspace, const Visit& visit) const {
    uint32_t found = 0;
    int known = 0;  // leading bits of the answer, of 31
    for (const int bits : {11, 10, 10}) {
      const int rest = 31 - known - bits;
      const auto* counts = count(items, grain, workspace, [&](int64_t first, int64_t last, int64_t* bins) {
        visit(first, last, [&](uint32_t value) {
          if ((value >> (31 - known)) == found) ++bins[(value >> rest) & ((1U << bits) - 1)];
        });
      });
      uint32_t bin = (1U << bits) - 1;
      for (; bin > 0 && counts[bin] < k; --bin) k -= counts[bin];
      found = (found << bits) | bin;
      known += bits;
    }
    return found;
  }

 private:
  static constexpr int64_t kBins = 2048;

  // Each thread counts for itself; the first histogram becomes the sum.
  template <class Body>
  int64_t* count(int64_t items, int64_t grain, void* workspace, const Body& body) const {
    auto* bins = static_cast<int64_t*>(workspace);
    std::memset(bins, 0, static_cast<size_t>(workspace_bytes()));
    const int64_t pieces = std::clamp<int64_t>(items / std::max<int64_t>(1, grain), 1, 64);
    parallel_items(pieces, slots_, [&](int64_t piece, int slot) {
      body(items * piece / pieces, items * (piece + 1) / pieces, bins + slot * kBins);
    });
    for (int slot = 1; slot < slots_; ++slot)
      for (int64_t i = 0; i < kBins; ++i) bins[i] += bins[slot * kBins + i];
    return bins;
  }

  int slots_;
};

}  // namespace plimsoll::kernels
