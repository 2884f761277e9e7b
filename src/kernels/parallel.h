// Work shared by the threads of the one OpenMP pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include <omp.h>

namespace plimsoll::kernels {

// Calls body(first, last) over [0, count) in pieces of at least `grain`. Pieces depend on count and grain alone, never
// on the number of threads, so that whatever is summed within a piece comes out the same everywhere.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(count / std::max<int64_t>(1, grain), 64));
  if (pieces == 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t first = count * piece / pieces;
    const int64_t last = count * (piece + 1) / pieces;
    body(first, last);
  }
}

// Threads that work at once. Kernels have workspace for each slot.
inline int thread_slots() { return omp_get_max_threads(); }

// Calls body(item, slot) for each of [0, count); `slot` is below `slots` and no two calls at once share one. For items
// that are independent of each other and large.
template <class Body>
void parallel_items(int64_t count, int slots, const Body& body) {
#pragma omp parallel for schedule(static, 1) num_threads(slots)
  for (int64_t item = 0; item < count; ++item) body(item, omp_get_thread_num());
}

}  // namespace plimsoll::kernels
