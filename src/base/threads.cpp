#include <plimsoll/threads.h>

#include <omp.h>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/thread_pool.h"

namespace plimsoll {

void set_threads(int threads) {
  if (threads < 1)
    throw Error(fmt::format("operators need at least 1 thread but {} are set", threads), ErrorKind::Usage);
  ::omp_set_num_threads(threads);
}

int threads() { return ::omp_get_max_threads(); }

void start_pool(int count) noexcept {
#pragma omp parallel num_threads(count)
  asm volatile("");  // NOLINT(hicpp-no-assembler): something, so that the region is kept
}

}  // namespace plimsoll
