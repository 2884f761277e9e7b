// interleave with threads: the open datasets are read ahead, each into slots of its place in the cycle.
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include <plimsoll/error.h>
#include "input/stages/interleave.h"
#include "input/workers.h"
#include "memory/small_thread.h"

namespace plimsoll::input {
namespace {

// Elements of one dataset that wait for their turn: two blocks, so that one is read while the other is handed on.
int64_t slots_of_place(const Interleaving& as) { return 2 * std::min<int64_t>(as.block, 8); }

// A place in the cycle: one of the datasets that take turns, with its slots. One thread at a time reads it.
struct Place {
  Place(const Interleaving& as, MemoryLine& line) : slots(as.element(), slots_of_place(as), line) {}

  Slots slots;
  std::unique_ptr<OpenDataset> open = {};
  int64_t first = 0, filled = 0;    // slots with elements, as a ring
  bool is_over = false;             // no element comes after the filled ones
  bool is_busy = false;             // a thread is inside of `open`
  std::exception_ptr failure = {};  // of the element after the filled ones

  int64_t free() const { return slots.count() - filled; }
  bool can_be_read() const { return open && !is_busy && !is_over && !failure && free() > 0; }
  void clear() {
    open.reset();
    first = filled = 0;
    is_over = false;
    failure = nullptr;
  }
  Rows free_rows() const {
    const int64_t at = (first + filled) % slots.count();
    return slots.rows(at, std::min(free(), slots.count() - at));
  }
  Rows filled_rows(int64_t most) const { return slots.rows(first, std::min({most, filled, slots.count() - first})); }
  void drop(int64_t count) {
    first = (first + count) % slots.count();
    filled -= count;
  }
};

// Only the consumer takes turns and opens datasets, so that threads can't change the order. A consumer that would have
// to wait reads too.
class ParallelInterleave final : public Stream {
 public:
  ParallelInterleave(Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& from,
                     const Interleaving& as)
      : Stream(meter),
        opener_(std::move(input), from, as, line),
        as_(as),
        threads_(as.threads == AUTOTUNE ? 1 : as.threads),
        wanted_threads_(threads_),
        workers_(threads_ - 1, line) {
    for (int64_t i = 0; i < as.cycle; ++i) places_.emplace_back(as, line);
  }

  ~ParallelInterleave() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    work_.notify_all();
    workers_.join();
  }

  int64_t skip(int64_t count, const Rows& scratch) override {
    std::unique_lock lock(mutex_);
    int64_t skipped = 0;
    while (skipped < count) {
      const int64_t passed = advance(lock, count - skipped,
                                     [&](Place& place, int64_t most) { return pass_over(lock, place, most, scratch); });
      if (passed == 0) break;
      skipped += passed;
    }
    return skipped;
  }

  void rewind(uint64_t epoch) override {
    std::unique_lock lock(mutex_);
    is_paused_ = true;
    made_.wait(lock, [&] { return std::ranges::none_of(places_, &Place::is_busy); });
    for (Place& place : places_) place.clear();
    opener_.rewind(epoch);
    at_ = in_block_ = 0;
    is_started_ = is_paused_ = false;
  }

  bool grow() override {
    const std::lock_guard lock(mutex_);
    if (has_no_room_ || wanted_threads_ >= most_interleave_threads(as_)) return false;
    ++wanted_threads_;
    return true;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    std::unique_lock lock(mutex_);
    start_workers();
    return advance(lock, rows.count(), [&](Place& place, int64_t most) { return take(lock, place, rows.front(most)); });
  }

 private:
  Place& place() { return places_[static_cast<size_t>(at_)]; }
  void to_next_place() {
    at_ = (at_ + 1) % as_.cycle;
    in_block_ = 0;
  }

  // Takes elements of the dataset whose turn it is, at most to the end of its block; 0 at the end.
  template <class Take>
  int64_t advance(std::unique_lock<std::mutex>& lock, int64_t most, const Take& take) {
    if (!std::exchange(is_started_, true))
      for (Place& place : places_) open_ahead(lock, place);
    while (true) {
      Place& now = place();
      if (now.open) {
        const int64_t taken = take(now, std::min(most, as_.block - in_block_));
        if (taken > 0) {
          in_block_ += taken;
          if (in_block_ == as_.block) to_next_place();
          return taken;
        }
        now.clear();
        to_next_place();
        open_ahead(lock, now);
      } else if (now.failure) {
        std::rethrow_exception(std::exchange(now.failure, nullptr));
      } else if (!opener_.is_over()) {
        open(lock, now);
      } else {
        if (std::ranges::all_of(places_, [](const Place& one) { return !one.open && !one.failure; })) return 0;
        to_next_place();
      }
    }
  }

  // Opens the next dataset before the place has its turn again. After a failure nothing later is opened until that is
  // thrown: the element that failed was the next one in order.
  void open_ahead(std::unique_lock<std::mutex>& lock, Place& place) {
    const auto has_failed = [](const Place& one) { return !one.open && one.failure; };
    if (opener_.is_over() || std::ranges::any_of(places_, has_failed)) return;
    try {
      open(lock, place);
    } catch (...) {
      place.failure = std::current_exception();
    }
  }
  void open(std::unique_lock<std::mutex>& lock, Place& place) {
    lock.unlock();
    std::unique_ptr<OpenDataset> next;
    std::exception_ptr failure;
    try {
      next = opener_.open_next();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) std::rethrow_exception(failure);
    place.open = std::move(next);
    wake_worker();
  }

  // Waits until the place has an element, or is known to have none; throws the failure of its next element.
  void wait_for(std::unique_lock<std::mutex>& lock, Place& place) {
    while (place.filled == 0 && !place.is_over && !place.failure) {
      if (place.can_be_read()) {
        read(lock, place);
        continue;
      }
      const Stopwatch waiting(meter().waiting_ns);
      made_.wait(lock, [&] { return !place.is_busy; });
    }
    if (place.filled == 0 && place.failure) std::rethrow_exception(std::exchange(place.failure, nullptr));
  }

  int64_t take(std::unique_lock<std::mutex>& lock, Place& place, const Rows& rows) {
    wait_for(lock, place);
    const Rows from = place.filled_rows(rows.count());
    lock.unlock();
    for (int64_t row = 0; row < from.count(); ++row) copy_row(as_.element(), from, row, rows, row);
    lock.lock();
    place.drop(from.count());
    wake_worker();
    return from.count();
  }

  int64_t pass_over(std::unique_lock<std::mutex>& lock, Place& place, int64_t most, const Rows& scratch) {
    made_.wait(lock, [&] { return !place.is_busy; });
    const int64_t here = std::min(most, place.filled);
    place.drop(here);
    if (here > 0 || place.is_over) return here;
    if (place.failure) std::rethrow_exception(std::exchange(place.failure, nullptr));
    return inside(lock, place, [&](OpenDataset& open) { return open.stream->skip(most, scratch); });
  }

  // Fills free slots of a place.
  void read(std::unique_lock<std::mutex>& lock, Place& place) {
    const Rows rows = place.free_rows();
    try {
      const int64_t filled = inside(lock, place, [&](OpenDataset& open) { return open.pull(rows, meter()); });
      place.filled += filled;
      place.is_over = filled == 0;
    } catch (...) {
      place.failure = std::current_exception();
    }
  }

  // Runs `use` without the lock, as the only thread inside the place.
  template <class Use>
  int64_t inside(std::unique_lock<std::mutex>& lock, Place& place, const Use& use) {
    place.is_busy = true;
    lock.unlock();
    int64_t count = 0;
    std::exception_ptr failure;
    try {
      count = use(*place.open);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    place.is_busy = false;
    made_.notify_all();
    if (failure) std::rethrow_exception(failure);
    return count;
  }

  // The place that is read next: the one whose turn comes first of those with the fewest elements.
  Place* find_work() {
    if (is_paused_) return nullptr;
    Place* best = nullptr;
    for (int64_t i = 0; i < as_.cycle; ++i) {
      Place& one = places_[static_cast<size_t>((at_ + i) % as_.cycle)];
      if (one.can_be_read() && (best == nullptr || one.filled < best->filled)) best = &one;
    }
    return best;
  }
  void wake_worker() {
    if (idle_ > 0) work_.notify_one();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      Place* work = nullptr;
      ++idle_;
      work_.wait(lock, [&] { return is_stopping_ || (work = find_work()) != nullptr; });
      --idle_;
      if (is_stopping_) return;
      read(lock, *work);
    }
  }

  void start_workers() {
    while (workers_.count() + 1 < threads_) workers_.start([this] { serve(); });
    if (threads_ >= wanted_threads_) return;
    try {
      workers_.start([this] { serve(); });
      ++threads_;
      meter().threads += 1;
      meter().bytes += memory::kSmallThreadBytes;
    } catch (const Error&) {  // no memory or no thread left: goes on with the threads there are
      has_no_room_ = true;
      wanted_threads_ = threads_;
    }
  }

  DatasetOpener opener_;
  const Interleaving& as_;
  std::deque<Place> places_;
  int threads_;
  int wanted_threads_;
  bool has_no_room_ = false;

  std::mutex mutex_;
  std::condition_variable work_, made_;  // for the threads; for the consumer
  int64_t at_ = 0;                       // the place whose turn it is
  int64_t in_block_ = 0;
  int idle_ = 0;
  bool is_started_ = false;
  bool is_paused_ = false;
  bool is_stopping_ = false;
  Workers workers_;
};

}  // namespace

Bytes parallel_interleave_bytes(const Interleaving& as, int threads) {
  return as.cycle * Slots::bytes(as.element(), slots_of_place(as)) + (threads - 1) * memory::kSmallThreadBytes;
}

int most_interleave_threads(const Interleaving& as) {
  return static_cast<int>(std::min<int64_t>(as.cycle, most_threads()));
}

std::unique_ptr<Stream> make_parallel_interleave(Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input,
                                                 const ElementSpec& from, const Interleaving& as) {
  return std::make_unique<ParallelInterleave>(meter, line, std::move(input), from, as);
}

}  // namespace plimsoll::input
