#include "together/replica_group.h"

#include <omp.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/memory_line.h>
#include "base/thread_pool.h"
#include "ranks/agreement.h"

namespace plimsoll::together {
namespace {

// The error of the replica that failed first; the others fail because it ended them.
class FirstFailure {
 public:
  void set(std::exception_ptr failure, int replica) {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    replica_ = replica;
  }
  void rethrow() const {
    if (!failure_) return;
    if (replica_ == 0) std::rethrow_exception(failure_);
    try {
      std::rethrow_exception(failure_);
    } catch (const DoesNotFit&) {
      throw;
    } catch (const ranks::AgreedError&) {  // all replicas throw the same
      throw;
    } catch (const Error& e) {
      throw Error(fmt::format("replica {}: {}", replica_, e.what()), e.kind());
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  int replica_ = 0;
};

}  // namespace

ReplicaGroup::ReplicaGroup(int count, std::chrono::milliseconds timeout)
    : threads_before_(omp_get_max_threads()),
      count_(count),
      ends_(ranks::make_replicas(count, timeout)),
      threads_(static_cast<size_t>(count - 1)) {
  start_threads();
}

ReplicaGroup::~ReplicaGroup() { omp_set_num_threads(threads_before_); }

int ReplicaGroup::threads_of(int replica) const {
  return std::max(1, threads_before_ / count_ + (replica < threads_before_ % count_ ? 1 : 0));
}

void ReplicaGroup::start_threads() {
  run([this](int replica) {
    omp_set_num_threads(threads_of(replica));
    start_pool();
    const ranks::NetworkSpeed speed = ranks::measure_network(*end(replica));
    if (replica == 0) network_ = speed;
  });
}

void ReplicaGroup::run_on(int replica, const std::function<void()>& work) {
  replica == 0 ? work() : thread(replica).run(work);
}

void ReplicaGroup::run(const std::function<void(int replica)>& work) {
  FirstFailure failure;
  const auto run_one = [&](int replica) {
    try {
      work(replica);
    } catch (const std::exception& e) {
      failure.set(std::current_exception(), replica);
      const auto* error = dynamic_cast<const Error*>(&e);
      end(replica)->abort(e.what(), error == nullptr ? 1 : error->exit_code());
    }
  };
  for (int i = 1; i < count_; ++i) thread(i).start([&run_one, i] { run_one(i); });
  run_one(0);
  for (int i = 1; i < count_; ++i) thread(i).wait();
  failure.rethrow();
}

}  // namespace plimsoll::together
