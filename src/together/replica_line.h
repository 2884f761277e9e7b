// One line that several replicas of a process plan under: each gets the same part of what the process leaves free.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include <plimsoll/memory_line.h>

namespace plimsoll::together {

// What a replica takes beside its plan, for plans of replicas that do not run: threads, and what they exchange.
constexpr Bytes kBytesOfReplica = 2 * MiB;

// While a replica plans, the parts of those planned later are held.
class ReplicaLine {
 public:
  ReplicaLine(const MemoryLine& line, int replicas) : line_(line), replicas_(replicas) {
    held_ = line_.reserve(Tag::Runtime, 0);
  }
  const MemoryLine& line() const { return line_; }

  // Replicas plan in their order: one that is not the next waits. A refusal says what all of them need, and is thrown
  // for all replicas after it too.
  void plan(int replica, const std::function<void()>& work);
  // Takes memory that was planned, one replica at a time, since the process is measured meanwhile.
  void open(const std::function<void()>& work) {
    const std::lock_guard lock(mutex_);
    work();
  }

 private:
  void give_part(int replica);
  [[noreturn]] void refuse(const DoesNotFit& of, int replica) const;

  MemoryLine line_;
  const int replicas_;
  Reservation held_;
  Bytes process_bytes_ = 0;  // when the replica that plans now began
  std::mutex mutex_;
  std::condition_variable changed_;
  int next_ = 0;
  std::exception_ptr refusal_;
};

}  // namespace plimsoll::together
