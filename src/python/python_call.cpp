#include "python/python_call.h"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <plimsoll/types.h>

namespace plimsoll::python {
namespace {

// An import within a function may nest dozens of calls.
constexpr size_t kSmallStack = 2 * MiB;

class Companion {
 public:
  Companion() : thread_([this] { serve(); }) {}
  ~Companion() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  void run(const std::function<void()>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [&] { return work_ == nullptr; });
    if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_over_ || work_ != nullptr; });
      if (work_ == nullptr) return;
      lock.unlock();
      std::exception_ptr raised;
      try {
        (*work_)();
      } catch (...) {
        raised = std::current_exception();
      }
      lock.lock();
      raised_ = std::move(raised);
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr raised_;
  bool is_over_ = false;
  std::thread thread_;
};

bool has_small_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  void* lowest = nullptr;
  size_t size = 0;
  const int failure = pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  return failure == 0 && size < kSmallStack;
}

}  // namespace

void call_python(const std::function<void()>& work) {
  static thread_local const bool is_small = has_small_stack();
  if (!is_small) return work();
  static thread_local Companion companion;
  companion.run(work);
}

}  // namespace plimsoll::python
