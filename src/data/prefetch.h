// Fills batches ahead of their use, on one thread and in a fixed number of slots.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

#include <plimsoll/memory_line.h>
#include "data/batches.h"
#include "memory/arena.h"

namespace plimsoll::data {

struct BatchSlot {
  std::vector<void*> rows;  // one buffer for each source, rows one after the other
  int64_t samples = 0;
};

// While it lives, only it may call next or seek on `batches`. The order of the batches is the
// one without prefetching. For one consumer.
class Prefetch {
 public:
  // What a line must have free under Tag::Data: the slots and the stack of the thread.
  static Bytes bytes_needed(const Batches& batches, int slots);
  // The same before any file is open, from the bytes of a row of each source.
  static Bytes bytes_needed(std::span<const Bytes> row_bytes, int64_t batch, int slots);

  Prefetch(Batches& batches, int slots, MemoryLine& line);
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;
  ~Prefetch();  // waits for at most one batch that is being read

  // The next batch, or nullptr when the epoch is over. It is the caller's until the following call of next, seek or
  // start_epoch. Rethrows what went wrong in the thread, after the batches before it.
  const BatchSlot* next();

  // Where to go on after the batches handed out so far; what was read ahead does not count.
  BatchState state() const { return state_; }
  void seek(const BatchState& state);
  void start_epoch(int64_t epoch) { seek({state_.seed, epoch, 0}); }

 private:
  struct Filled {
    BatchSlot slot;
    BatchState after;
  };
  static void* run(void* self);
  void work();
  size_t slot_index(int64_t turn) const { return static_cast<size_t>(turn % static_cast<int64_t>(ring_.size())); }

  Batches& batches_;
  Reservation held_;
  memory::Arena arena_;
  std::vector<Filled> ring_;
  BatchState state_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Turns only grow: free_from_ <= handed_ <= filled_ <= free_from_ + slots.
  int64_t filled_ = 0;     // batches the thread has finished
  int64_t handed_ = 0;     // batches the caller has seen
  int64_t free_from_ = 0;  // batches the caller is done with
  bool reading_ = false;   // the thread is inside batches_
  bool paused_ = false;    // the caller wants to be inside batches_
  bool over_ = false;      // nothing more in this epoch, or an error
  bool stop_ = false;
  std::exception_ptr error_;
  pthread_t thread_{};
};

}  // namespace plimsoll::data
