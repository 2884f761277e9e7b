#include "together/replica_thread.h"

#include <utility>

namespace plimsoll::together {

ReplicaThread::~ReplicaThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReplicaThread::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    next_ = std::move(work);
    is_busy_ = true;
  }
  changed_.notify_all();
}

void ReplicaThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_busy_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ReplicaThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_busy_ || ends_; });
    if (!is_busy_) return;
    const std::function<void()> now = std::exchange(next_, nullptr);
    lock.unlock();
    std::exception_ptr failure;
    try {
      now();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace plimsoll::together
