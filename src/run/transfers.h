// Reads and writes of a scratch file beside the computation: one thread, first in, first out.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>

#include "memory/scratch_file.h"
#include "memory/small_thread.h"

namespace plimsoll::run {

// For one caller, which must leave the memory of a request alone until wait says that it is done. Allocates nothing
// after construction. Nobody else may use the file while this lives.
class Transfers {
 public:
  static constexpr int64_t kRequests = 64;  // under way at once; starting one more blocks until the first ends
  static constexpr Bytes kBytes = memory::kSmallThreadBytes;  // what a line must have free under Tag::Staging

  explicit Transfers(memory::ScratchFile& file);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers();  // waits for the request that runs; those behind it are dropped

  // The ticket to wait for: 1, 2, ... A read sees all writes started before it.
  int64_t start_read(Bytes at, void* into, Bytes bytes) noexcept { return start({at, into, nullptr, bytes}); }
  int64_t start_write(Bytes at, const void* from, Bytes bytes) noexcept { return start({at, nullptr, from, bytes}); }

  // Returns when the request is done, or skipped because one before it failed.
  void wait(int64_t ticket) noexcept {
    if (done_.load(std::memory_order_acquire) < ticket) wait_longer(ticket);
  }
  void wait_all() noexcept { wait(started_); }
  int64_t started() const noexcept { return started_; }  // the last ticket given out

  // The first failure. Look after wait: what was read since then is garbage.
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  std::exception_ptr failure() const { return failed() ? error_ : nullptr; }
  void rethrow() const {
    if (failed()) std::rethrow_exception(error_);
  }

  int64_t waited_ns() const { return waited_ns_; }  // how long the caller stood still, in wait or for a free request

 private:
  struct Request {
    Bytes at;
    void* into;        // a read, or
    const void* from;  // a write
    Bytes bytes;
  };

  int64_t start(const Request& request) noexcept;
  void wait_longer(int64_t ticket) noexcept;
  static void* run(void* self);
  void work();
  void serve(const Request& request) noexcept;
  Request& slot(int64_t ticket) { return ring_[static_cast<size_t>(ticket % kRequests)]; }

  memory::ScratchFile& file_;
  std::array<Request, kRequests> ring_{};
  int64_t started_ = 0;  // written under the mutex, by the caller only
  int64_t waited_ns_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;  // set before failed_, never changed after
  std::atomic<bool> failed_ = false;
  std::atomic<int64_t> done_ = 0;  // written under the mutex, by the thread only
  std::mutex mutex_;
  std::condition_variable more_;      // for the thread
  std::condition_variable advanced_;  // for the caller
  pthread_t thread_{};
};

}  // namespace plimsoll::run
