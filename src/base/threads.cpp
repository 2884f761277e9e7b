#include <plimsoll/threads.h>

#include <omp.h>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {

void set_threads(int threads) {
  if (threads < 1)
    throw Error(fmt::format("operators need at least 1 thread but {} are set", threads), ErrorKind::Usage);
  ::omp_set_num_threads(threads);
}

int threads() { return ::omp_get_max_threads(); }

}  // namespace plimsoll
