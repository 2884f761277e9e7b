// prefetch: elements are made ahead of their use, on a thread and in a fixed number of slots.
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"
#include "input/workers.h"
#include "memory/small_thread.h"

namespace plimsoll {
namespace {

using input::Rows;
using input::Slots;
using input::Stopwatch;
using input::Stream;

constexpr int kFewestAhead = 1;  // where AUTOTUNE starts
constexpr int kMostAhead = 8;    // where AUTOTUNE ends

// Elements have turns, which only grow. An input with random access is read by number: the thread, and a consumer that
// would have to wait, each read a turn. Other inputs are pulled by one thread.
//
//   free_from_       handed_       filled_          claimed_       free_from_ + slots
//       | in use, lent  |  made      |  being made    |    free         |
class PrefetchStream final : public Stream {
 public:
  // `size` is that of the input, as Dataset::size. There is one slot more than `ahead`: the one that the consumer
  // holds.
  PrefetchStream(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& spec,
                 int64_t size, int ahead, int most_ahead, int64_t rows_at_once)
      : Stream(meter),
        input_(std::move(input)),
        from_(size >= 0 ? input_->indexed() : nullptr),
        size_(size),
        spec_(spec),
        rows_at_once_(rows_at_once),
        slots_(spec, ahead + 1, line, most_ahead + 1),
        is_made_(static_cast<size_t>(slots_.most())),
        is_by_number_(from_ != nullptr),
        wanted_slots_(slots_.count()),
        workers_(1, line) {}

  ~PrefetchStream() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    work_.notify_all();
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
    if (!is_by_number_) return here + input_->skip(count - here, slots_.rows(slot_of(filled_), 1));
    const int64_t passed = std::min(size_ - number_of(filled_), count - here);
    first_number_ += passed;
    return here + passed;
  }

  void rewind(uint64_t epoch) override {
    std::unique_lock lock(mutex_);
    const Pause pause(*this, lock);
    input_->rewind(epoch);
    epoch_ = epoch;
    // Drops elements that were made ahead.
    free_from_ = handed_ = claimed_ = filled_;
    is_made_.assign(is_made_.size(), false);
    is_by_number_ = from_ != nullptr;
    first_number_ = -filled_;
    is_over_ = false;
    failure_ = nullptr;
  }

  Rows lend() override {
    const Stopwatch watch(meter().busy_ns);
    std::unique_lock lock(mutex_);
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
    if (!wait_for_element(lock)) return 0;
    const int64_t now = std::min(rows.count(), filled_ - handed_);
    lock.unlock();
    for (int64_t row = 0; row < now; ++row) copy_row(spec_, slots_.rows(slot_of(handed_ + row), 1), 0, rows, row);
    lock.lock();
    handed_ += now;
    return now;
  }

 private:
  int64_t slot_of(int64_t turn) const { return (turn + offset_) % slots_.count(); }
  int64_t number_of(int64_t turn) const { return first_number_ + turn; }

  // Also takes back the slot that was lent before.
  bool wait_for_element(std::unique_lock<std::mutex>& lock) {
    free_from_ = handed_;
    if (workers_.count() == 0) workers_.start([this] { work(); });
    wake_worker();
    const auto is_answered = [&] { return handed_ < filled_ || is_at_end(handed_) || failure_; };
    while (!is_answered()) {
      if (is_by_number_ && can_claim()) {
        make_next(lock);
        continue;
      }
      const Stopwatch waiting(meter().waiting_ns);
      is_consumer_waiting_ = true;
      made_.wait(lock, [&] { return is_answered() || (is_by_number_ && can_claim()); });
      is_consumer_waiting_ = false;
    }
    if (handed_ < filled_) return true;
    throw_failure();
    return false;
  }
  // The thread then goes on with the element after the one that failed.
  void throw_failure() {
    if (!failure_) return;
    const std::exception_ptr failure = std::exchange(failure_, nullptr);
    wake_worker();
    std::rethrow_exception(failure);
  }
  // Waking costs a system call, so the thread is woken only when it waits and has work.
  void wake_worker() {
    if (is_worker_waiting_ && can_claim()) work_.notify_all();
  }

  // While it lives only the consumer uses input_, not the thread.
  class Pause {
   public:
    Pause(PrefetchStream& stream, std::unique_lock<std::mutex>& lock) : stream_(stream) {
      stream_.is_paused_ = true;
      stream_.made_.wait(lock, [&] { return stream_.in_work_ == 0; });
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() {
      stream_.is_paused_ = false;
      stream_.work_.notify_all();
    }

   private:
    PrefetchStream& stream_;
  };

  bool is_at_end(int64_t turn) const { return is_over_ || (is_by_number_ && number_of(turn) >= size_); }
  bool can_claim() const {
    return !is_paused_ && !failure_ && !has_failed_by_number_ && (is_by_number_ || in_work_ == 0) &&
           claimed_ < free_from_ + slots_.count() && !is_at_end(claimed_);
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      is_worker_waiting_ = true;
      work_.wait(lock, [&] { return is_stopping_ || can_claim(); });
      is_worker_waiting_ = false;
      if (is_stopping_) return;
      make_next(lock);
    }
  }

  void make_next(std::unique_lock<std::mutex>& lock) {
    add_slots();
    ++in_work_;
    if (is_by_number_)
      read_turn(lock);
    else
      pull_turns(lock);
    --in_work_;
    if (has_failed_by_number_ && in_work_ == 0) stop_reading_by_number();
    if (is_consumer_waiting_ || is_paused_) made_.notify_all();
    wake_worker();
  }

  void read_turn(std::unique_lock<std::mutex>& lock) {
    const int64_t number = number_of(claimed_), slot = slot_of(claimed_);
    ++claimed_;
    lock.unlock();
    bool is_made = true;
    try {
      const Stopwatch watch(input_->meter().busy_ns);
      from_->read(number, slots_.rows(slot, 1));
      input_->meter().elements.fetch_add(1, std::memory_order_relaxed);
    } catch (...) {
      is_made = false;  // the element is pulled again, which throws
    }
    lock.lock();
    is_made_[static_cast<size_t>(slot)] = is_made;
    has_failed_by_number_ |= !is_made;
    while (filled_ < claimed_ && is_made_[static_cast<size_t>(slot_of(filled_))])
      is_made_[static_cast<size_t>(slot_of(filled_++))] = false;
  }

  void pull_turns(std::unique_lock<std::mutex>& lock) {
    const int64_t slot = slot_of(filled_);
    const int64_t free = free_from_ + slots_.count() - filled_;
    const Rows rows = slots_.rows(slot, std::min({rows_at_once_, free, slots_.count() - slot}));
    lock.unlock();
    int64_t made = 0;
    std::exception_ptr failure;
    try {
      made = input_->pull(rows);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    claimed_ = filled_ += made;
    failure_ = failure;
    is_over_ = made == 0 && !failure;
  }

  // How an input goes on after a bad element is known only to its pull(), so elements are pulled from there on.
  void stop_reading_by_number() {
    const int64_t number = number_of(filled_);
    has_failed_by_number_ = is_by_number_ = false;
    claimed_ = filled_;
    is_made_.assign(is_made_.size(), false);
    try {
      input_->rewind(epoch_);
      input_->skip(number, slots_.rows(slot_of(filled_), 1));
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  // The slot of a turn depends on the number of slots, which may change only while no slot but the lent one is in use.
  void add_slots() {
    if (slots_.count() == wanted_slots_ || claimed_ != handed_ || in_work_ > 0) return;
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
  const input::Indexed* const from_;  // null where it is pulled
  const int64_t size_;
  const ElementSpec& spec_;
  const int64_t rows_at_once_;
  Slots slots_;

  std::mutex mutex_;
  std::condition_variable work_, made_;  // for the thread; for the consumer
  int64_t free_from_ = 0;                // the consumer is done with turns before this
  int64_t handed_ = 0;                   // turns before this were handed to the consumer
  int64_t filled_ = 0;                   // turns before this are made
  int64_t claimed_ = 0;
  std::vector<bool> is_made_;  // by slot, from filled_ on
  int64_t offset_ = 0;
  bool is_by_number_;
  int64_t first_number_ = 0;  // of turn 0
  uint64_t epoch_ = 0;
  int64_t wanted_slots_;
  int in_work_ = 0;  // threads inside input_
  bool has_failed_by_number_ = false;
  bool has_no_room_ = false;
  bool is_worker_waiting_ = false;
  bool is_consumer_waiting_ = false;
  bool is_paused_ = false;  // the consumer wants to use input_
  bool is_over_ = false;
  bool is_stopping_ = false;
  std::exception_ptr failure_;  // of the element after the last one made
  input::Workers workers_;
};

class PrefetchRecipe final : public input::SameElements {
 public:
  PrefetchRecipe(const input::RecipePtr& input, int count) : SameElements(input), count_(count) {}

  std::string text() const override { return "prefetch()"; }
  int64_t size() const override { return input().size(); }
  bool lends() const override { return true; }
  input::Holding holding() const override {
    return {.bytes = Slots::bytes(element(), least() + 1) + memory::kSmallThreadBytes,
            .threads = 1,
            .most_bytes = Slots::bytes(element(), most() + 1) + memory::kSmallThreadBytes};
  }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    auto stream = std::make_unique<PrefetchStream>(meter, build.line, std::move(inputs[0]), element(), size(), least(),
                                                   most(), input().wanted_rows());
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
  return input::make_dataset(std::make_shared<PrefetchRecipe>(recipe_, count));
}

}  // namespace plimsoll
