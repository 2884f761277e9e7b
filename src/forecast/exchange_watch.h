// Counts what the ranks of a training exchange between two moments.
#pragma once

#include <chrono>

#include "report/exchange_report.h"
#include "train/training.h"

namespace plimsoll::forecast {

class ExchangeWatch {
 public:
  // Counts from now on. The training must outlive it.
  explicit ExchangeWatch(const train::Training& training);
  // Means over the `steps` steps since then; all ranks call it together. Unset where there are no other ranks.
  std::optional<report::ExchangeFacts> count(int64_t steps) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Counters {
    double sent_bytes = 0, busy_ns = 0, exposed_ns = 0;
  };
  static Counters now(const train::Training& training);

  const train::Training& training_;
  const Counters begin_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace plimsoll::forecast
