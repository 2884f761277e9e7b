#include "input/stream.h"

#include <algorithm>

namespace plimsoll::input {
namespace {

thread_local Stopwatch* innermost = nullptr;

}  // namespace

void Meter::count_skipped(const char* why) {
  ++skipped;
  const std::lock_guard lock(mutex_);
  last_skipped_ = why;
}

std::string Meter::last_skipped() const {
  const std::lock_guard lock(mutex_);
  return last_skipped_;
}

Stopwatch::Stopwatch(std::atomic<int64_t>& counter)
    : counter_(counter), outer_(innermost), start_(std::chrono::steady_clock::now()) {
  innermost = this;
}

Stopwatch::~Stopwatch() {
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_);
  counter_.fetch_add(took.count() - inner_ns_, std::memory_order_relaxed);
  if (outer_ != nullptr) outer_->inner_ns_ += took.count();
  innermost = outer_;
}

int64_t Stream::pull(const Rows& rows) {
  const Stopwatch watch(meter_.busy_ns);
  const int64_t filled = fill(rows);
  meter_.elements.fetch_add(filled, std::memory_order_relaxed);
  return filled;
}

int64_t Stream::pull_all(const Rows& rows) {
  int64_t filled = 0;
  while (filled < rows.count()) {
    const int64_t more = pull(rows.from(filled));
    if (more == 0) break;
    filled += more;
  }
  return filled;
}

int64_t Stream::skip(int64_t count, const Rows& scratch) {
  int64_t skipped = 0;
  while (skipped < count && pull(scratch.front(1)) > 0) ++skipped;
  return skipped;
}

void Indexed::gather(std::span<const int64_t> numbers, const Rows& rows) const {
  for (size_t i = 0; i < numbers.size(); ++i) read(numbers[i], rows.row(static_cast<int64_t>(i)));
}

int64_t IndexedStream::fill(const Rows& rows) {
  const int64_t now = std::min(rows.count(), count() - position_);
  if (now <= 0) return 0;
  const int64_t first = position_;
  // One at a time after an error, so that only the bad element is lost.
  try {
    read(first, rows.front(now));
    position_ += now;
    return now;
  } catch (...) {
    if (now == 1) {
      ++position_;
      throw;
    }
  }
  ++position_;
  read(first, rows.front(1));
  return 1;
}

int64_t IndexedStream::skip(int64_t count, const Rows&) {
  const int64_t now = std::min(count, this->count() - position_);
  position_ += now;
  return now;
}

void IndexedStream::rewind(uint64_t) { position_ = 0; }

}  // namespace plimsoll::input
