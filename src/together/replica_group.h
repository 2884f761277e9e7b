// Replicas as threads of this process: their ends of the messages between them, and work that all of them do.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "ranks/network_speed.h"
#include "together/replica_thread.h"

namespace plimsoll::together {

// The first replica is the calling thread. Threads exist from construction on, with their pools: what the process holds
// can be measured.
class ReplicaGroup {
 public:
  // Each has its share of the threads of the caller, which gets its own number back at the end.
  ReplicaGroup(int count, std::chrono::milliseconds timeout);
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;
  ~ReplicaGroup();

  int count() const { return count_; }
  int threads_of(int replica) const;
  const std::shared_ptr<ranks::Communicator>& end(int replica) const { return ends_[static_cast<size_t>(replica)]; }
  const ranks::NetworkSpeed& network() const { return network_; }

  // On the thread of that replica; throws what it throws.
  void run_on(int replica, const std::function<void()>& work);
  // On all of them at once. The error of the one that failed first ends the others, and is thrown here.
  void run(const std::function<void(int replica)>& work);

 private:
  ReplicaThread& thread(int replica) { return threads_[static_cast<size_t>(replica - 1)]; }
  void start_threads();

  const int threads_before_;
  const int count_;
  std::vector<std::shared_ptr<ranks::Communicator>> ends_;
  ranks::NetworkSpeed network_;
  std::deque<ReplicaThread> threads_;  // last: they end first
};

}  // namespace plimsoll::together
