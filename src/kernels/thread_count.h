// Sets the number of OpenMP threads until the scope is left. Kernels size their workspace by it, and oneDNN cuts its
// work by it, both when kernels are prepared and when they run.
#pragma once

#include <omp.h>

namespace plimsoll::kernels {

class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace plimsoll::kernels
