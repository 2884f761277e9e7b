// Sums that come out the same for any number of threads: fixed blocks, each summed alone, added in order.
#pragma once

#include <plimsoll/types.h>
#include "kernels/parallel.h"

namespace plimsoll::kernels {

constexpr int64_t kMaxBlocks = 64;
constexpr Bytes kBlockSumBytes = kMaxBlocks * static_cast<Bytes>(sizeof(double));

// The sum of body(first, last) over blocks of at least `grain` that cover [0, count). `partial` has kBlockSumBytes.
template <class Body>
double sum_in_blocks(int64_t count, int64_t grain, void* partial, const Body& body) {
  auto* sums = static_cast<double*>(partial);
  const int64_t blocks = std::max<int64_t>(1, std::min(count / std::max<int64_t>(1, grain), kMaxBlocks));
  parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) sums[i] = body(count * i / blocks, count * (i + 1) / blocks);
  });
  double sum = 0;
  for (int64_t i = 0; i < blocks; ++i) sum += sums[i];
  return sum;
}

}  // namespace plimsoll::kernels
