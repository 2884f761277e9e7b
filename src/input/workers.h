// Threads of a stage: small, of low priority, and counted under the line.
#pragma once

#include <pthread.h>

#include <deque>
#include <functional>

#include <plimsoll/memory_line.h>

namespace plimsoll::input {

// Joins its threads when it is destroyed; its owner must have told them to end before.
class Workers {
 public:
  // Reserves the memory of so many threads at once, so that it is still there when they are started.
  Workers(int count, MemoryLine& line);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() { join(); }

  // Throws DoesNotFit where more are started than were counted, or Error when the system has no thread left.
  void start(std::function<void()> work);
  void join();
  int count() const { return static_cast<int>(threads_.size()); }

 private:
  struct Thread {
    std::function<void()> work;
    pthread_t id{};
  };
  static void* run(void* thread);

  Reservation held_;
  std::deque<Thread> threads_;
};

// The most threads that AUTOTUNE gives to a stage: no more than there are processors.
int most_threads();

}  // namespace plimsoll::input
