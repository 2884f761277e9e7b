// The thread of a replica: runs what it is given, one after another.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace plimsoll::together {

class ReplicaThread {
 public:
  ReplicaThread() : thread_([this] { work(); }) {}
  ReplicaThread(const ReplicaThread&) = delete;
  ReplicaThread& operator=(const ReplicaThread&) = delete;
  ~ReplicaThread();

  void start(std::function<void()> work);
  void wait();  // until it is done; throws what it threw
  void run(std::function<void()> work) {
    start(std::move(work));
    wait();
  }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> next_;
  bool is_busy_ = false, ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace plimsoll::together
