#include "together/replica_line.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "forecast/forecast.h"

namespace plimsoll::together {

void ReplicaLine::plan(int replica, const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return next_ == replica; });
  const auto end = [&] {
    ++next_;
    changed_.notify_all();
  };
  try {
    if (refusal_) std::rethrow_exception(refusal_);
    give_part(replica);
    try {
      work();
    } catch (const DoesNotFit& e) {
      refuse(e, replica);
    }
    end();
  } catch (const DoesNotFit&) {
    refusal_ = std::current_exception();
    end();
    throw;
  } catch (...) {
    end();
    throw;
  }
}

void ReplicaLine::give_part(int replica) {
  if (replica == 0) line_.measure_process();
  process_bytes_ = line_.process_bytes();
  const int left = replicas_ - replica;
  const Bytes free = line_.free() + held_.bytes();
  held_.resize(0);
  held_.resize(free / left * (left - 1));
}

void ReplicaLine::refuse(const DoesNotFit& of, int replica) const {
  Refusal all = of.refusal();
  // Each takes its tensors, and plans and kernels that make the process larger than it was before.
  const Bytes own = all.need - all.runtime - all.others;
  const Bytes part = own + std::max<Bytes>(0, all.runtime - process_bytes_);
  const Bytes before = std::max<Bytes>(0, all.others - held_.bytes());
  all.need = process_bytes_ + before + part * (replicas_ - replica);
  all.others = all.need - all.runtime - own;
  all.smallest_line = round_line(all.need);
  all.reason = fmt::format("replica {} of {} must fit its part of what the line leaves for all", replica, replicas_);
  throw DoesNotFit(all);
}

}  // namespace plimsoll::together
