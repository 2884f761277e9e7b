// prefetch: elements are made ahead of their use, on one thread and in a fixed number of slots.
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "dataset/origin.h"
#include "dataset/workers.h"
#include "memory/small_thread.h"

namespace plimsoll {
namespace {

using dataset::Rows;
using dataset::Slots;
using dataset::Stopwatch;
using dataset::Stream;

constexpr int kFewestAhead = 1;  // what AUTOTUNE starts from
constexpr int kMostAhead = 8;    // and ends at

class PrefetchStream final : public Stream {
 public:
  // One slot more than `ahead` is in the hands of the consumer.
  PrefetchStream(dataset::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& spec,
                 int ahead, int most_ahead, int64_t rows_at_once)
      : Stream(meter),
        input_(std::move(input)),
        spec_(spec),
        rows_at_once_(rows_at_once),
        slots_(spec, ahead + 1, line, most_ahead + 1),
        wanted_slots_(slots_.count()),
        workers_(1, line) {}

  ~PrefetchStream() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    workers_.join();
  }

  int64_t skip(int64_t count, const Rows&) override {
    std::unique_lock lock(mutex_);
    const Pause pause(*this, lock);
    const int64_t here = std::min(count, filled_ - handed_);
    handed_ += here;
    free_from_ = handed_;
    if (here == count) return count;
    throw_failure();
    return here + input_->skip(count - here, slots_.rows(slot_of(filled_), 1));
  }

  void rewind(uint64_t epoch) override {
    std::unique_lock lock(mutex_);
    const Pause pause(*this, lock);
    input_->rewind(epoch);
    // Whatever was made ahead is dropped.
    free_from_ = handed_ = filled_;
    is_over_ = false;
    failure_ = nullptr;
  }

  Rows lend() override {
    const Stopwatch watch(meter().busy_ns);
    std::unique_lock lock(mutex_);
    free_from_ = handed_;
    if (!wait_for_element(lock)) return {nullptr, 0, 0};
    meter().elements.fetch_add(1, std::memory_order_relaxed);
    return slots_.rows(slot_of(handed_++), 1);
  }

  bool grow() override {
    const std::lock_guard lock(mutex_);
    if (has_no_room_ || wanted_slots_ >= slots_.most()) return false;
    ++wanted_slots_;
    return true;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    std::unique_lock lock(mutex_);
    free_from_ = handed_;
    if (!wait_for_element(lock)) return 0;
    const int64_t now = std::min(rows.count(), filled_ - handed_);
    lock.unlock();
    for (int64_t row = 0; row < now; ++row) copy_row(spec_, slots_.rows(slot_of(handed_ + row), 1), 0, rows, row);
    lock.lock();
    handed_ += now;
    free_from_ = handed_;
    changed_.notify_all();
    return now;
  }

 private:
  int64_t slot_of(int64_t turn) const { return (turn + offset_) % slots_.count(); }

  bool wait_for_element(std::unique_lock<std::mutex>& lock) {
    if (workers_.count() == 0) workers_.start([this] { work(); });
    changed_.notify_all();
    const Stopwatch waiting(meter().waiting_ns);
    changed_.wait(lock, [&] { return handed_ < filled_ || is_over_ || failure_; });
    if (handed_ < filled_) return true;
    throw_failure();
    return false;
  }
  // The thread goes on behind the element that failed.
  void throw_failure() {
    if (!failure_) return;
    const std::exception_ptr failure = std::exchange(failure_, nullptr);
    changed_.notify_all();
    std::rethrow_exception(failure);
  }

  // While it lives the consumer is inside input_, not the thread.
  class Pause {
   public:
    Pause(PrefetchStream& stream, std::unique_lock<std::mutex>& lock) : stream_(stream) {
      stream_.is_paused_ = true;
      stream_.changed_.wait(lock, [&] { return !stream_.is_reading_; });
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() {
      stream_.is_paused_ = false;
      stream_.changed_.notify_all();
    }

   private:
    PrefetchStream& stream_;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] {
        return is_stopping_ || (!is_paused_ && !is_over_ && !failure_ && filled_ < free_from_ + slots_.count());
      });
      if (is_stopping_) return;
      add_slots();
      const int64_t slot = slot_of(filled_);
      const int64_t free = free_from_ + slots_.count() - filled_;
      const Rows rows = slots_.rows(slot, std::min({rows_at_once_, free, slots_.count() - slot}));
      is_reading_ = true;
      lock.unlock();
      int64_t made = 0;
      std::exception_ptr failure;
      try {
        made = input_->pull(rows);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      is_reading_ = false;
      filled_ += made;
      failure_ = failure;
      is_over_ = made == 0 && !failure;
      changed_.notify_all();
    }
  }

  // The place of a turn depends on the number of slots: it may change only while none but the lent one is in use.
  void add_slots() {
    if (slots_.count() == wanted_slots_ || filled_ != handed_) return;
    const int64_t lent = slot_of(handed_ - 1);
    if (!slots_.grow(wanted_slots_)) {
      has_no_room_ = true;
      wanted_slots_ = slots_.count();
      return;
    }
    const int64_t count = slots_.count();
    offset_ = ((lent - (handed_ - 1)) % count + count) % count;
    meter().bytes = slots_.bytes() + memory::kSmallThreadBytes;
  }

  const std::unique_ptr<Stream> input_;
  const ElementSpec& spec_;
  const int64_t rows_at_once_;
  Slots slots_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Turns only grow: free_from_ <= handed_ <= filled_ <= free_from_ + slots.
  int64_t filled_ = 0;     // elements the thread has made
  int64_t handed_ = 0;     // elements the consumer has seen
  int64_t free_from_ = 0;  // elements the consumer is done with
  int64_t offset_ = 0;
  int64_t wanted_slots_;
  bool has_no_room_ = false;
  bool is_reading_ = false;  // the thread is inside input_
  bool is_paused_ = false;   // the consumer wants to be inside input_
  bool is_over_ = false;
  bool is_stopping_ = false;
  std::exception_ptr failure_;  // of the element behind the last one made
  dataset::Workers workers_;
};

class PrefetchRecipe final : public dataset::SameElements {
 public:
  PrefetchRecipe(const dataset::RecipePtr& input, int count) : SameElements(input), count_(count) {}

  std::string text() const override { return "prefetch()"; }
  int64_t size() const override { return input().size(); }
  bool lends() const override { return true; }
  dataset::Holding holding() const override {
    return {.bytes = Slots::bytes(element(), least() + 1) + memory::kSmallThreadBytes,
            .threads = 1,
            .most_bytes = Slots::bytes(element(), most() + 1) + memory::kSmallThreadBytes};
  }

 protected:
  std::unique_ptr<Stream> make(dataset::Build& build, dataset::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    auto stream = std::make_unique<PrefetchStream>(meter, build.line, std::move(inputs[0]), element(), least(), most(),
                                                   input().wanted_rows());
    if (count_ == AUTOTUNE) build.tunable.push_back(stream.get());
    return stream;
  }

 private:
  int least() const { return count_ == AUTOTUNE ? kFewestAhead : count_; }
  int most() const { return count_ == AUTOTUNE ? kMostAhead : count_; }

  const int count_;
};

}  // namespace

Dataset Dataset::prefetch(int count) const {
  if (count < 1 && count != AUTOTUNE)
    throw Error(fmt::format("prefetch({}): give at least 1, or AUTOTUNE", count), ErrorKind::Usage);
  return dataset::make_dataset(std::make_shared<PrefetchRecipe>(recipe_, count));
}

}  // namespace plimsoll
