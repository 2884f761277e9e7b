// Kernels that talk to other ranks, run beside the computation: one thread, first in, first out.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/kernel.h"
#include "memory/small_thread.h"

namespace plimsoll::run {

// For one caller, which must leave the memory of a kernel alone until wait says that it is done. Allocates nothing
// after construction.
class Exchanges {
 public:
  // The most under way at once: one more blocks the computation until the first ends. Deep models have hundreds.
  static constexpr int64_t kRequests = 1024;
  static constexpr Bytes kBytes = memory::kSmallThreadBytes + 64 * KiB;  // what a line must have free

  Exchanges();
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;
  ~Exchanges();

  // The ticket to wait for: 1, 2, ... What the arguments point to must live until then.
  int64_t start(kernels::Kernel* kernel, const kernels::Args& args) noexcept;
  void wait(int64_t ticket) noexcept {
    if (done_.load(std::memory_order_acquire) < ticket) wait_longer(ticket);
  }
  void wait_all() noexcept { wait(started_); }
  int64_t started() const noexcept { return started_; }  // the last ticket given out

  int64_t busy_ns() const { return busy_ns_.load(std::memory_order_relaxed); }  // time spent in kernels
  int64_t waited_ns() const { return waited_ns_; }                              // how long the caller stood still

 private:
  struct Request {
    kernels::Kernel* kernel;
    kernels::Args args;
  };

  void wait_longer(int64_t ticket) noexcept;
  static void* run(void* self);
  void work();
  Request& slot(int64_t ticket) { return ring_[static_cast<size_t>(ticket % kRequests)]; }

  std::vector<Request> ring_ = std::vector<Request>(kRequests);
  int64_t started_ = 0;  // written under the mutex, by the caller only
  int64_t waited_ns_ = 0;
  std::atomic<int64_t> busy_ns_ = 0;
  bool stop_ = false;
  std::atomic<int64_t> done_ = 0;  // written under the mutex, by the thread only
  std::mutex mutex_;
  std::condition_variable more_;      // for the thread
  std::condition_variable advanced_;  // for the caller
  pthread_t thread_{};
};

}  // namespace plimsoll::run
