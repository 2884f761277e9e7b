#include "input/stages/map.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "input/origin.h"
#include "input/workers.h"
#include "memory/small_thread.h"

namespace plimsoll::input {
namespace {

// Inputs held for each thread: while one element is slow, others may be this far ahead of it.
constexpr int64_t kInputsPerThread = 2;

int64_t input_slots(int threads) { return threads == 1 ? 1 : threads * kInputsPerThread; }

// The consumer's thread is one of `threads`, and needs no stack.
Bytes map_bytes(const ElementSpec& from, const MapSpec& spec, int threads) {
  return Slots::bytes(from, input_slots(threads)) + (threads - 1) * memory::kSmallThreadBytes +
         threads * spec.thread_bytes;
}

// Elements have turns: 0, 1, 2 ... The input of a turn is kept until all before it are made, so that after an error
// nothing is lost behind the bad element.
//
//        low_          next_            taken_        low_ + slots
//   made  |  being made  |  input is here  |  to be taken  |
class MapStream final : public Stream {
 public:
  MapStream(Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& from_spec,
            const MapSpec& spec)
      : Stream(meter),
        line_(line),
        input_(std::move(input)),
        from_(input_->indexed()),
        from_spec_(from_spec),
        spec_(spec),
        most_threads_(spec.threads == AUTOTUNE ? most_threads() : spec.threads),
        threads_(spec.threads == AUTOTUNE ? 1 : spec.threads),
        wanted_threads_(threads_),
        inputs_(from_spec, input_slots(threads_), line, input_slots(most_threads_)),
        errors_(static_cast<size_t>(input_slots(most_threads_))),
        is_made_(static_cast<size_t>(input_slots(most_threads_))),
        workers_(threads_ - 1, line) {
    for (int i = 0; i < threads_; ++i) functions_.push_back(make_function());
  }

  ~MapStream() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    workers_.join();
  }

  int64_t skip(int64_t count, const Rows&) override {
    const int64_t here = std::min(count, taken_ - next_);
    next_ += here;
    low_ = next_;
    if (here == count) return count;
    const int64_t passed =
        from_ == nullptr ? input_->skip(count - here, inputs_.rows()) : std::min(count - here, from_->count() - index_);
    if (from_ != nullptr) index_ += passed;
    without_turn_ += passed;
    return here + passed;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    low_ = next_ = taken_ = index_ = without_turn_ = 0;
    epoch_key_ = mix_bits(spec_.seed, epoch);
    is_input_over_ = false;
    deferred_ = nullptr;
  }

  bool grow() override {
    if (has_no_room_ || wanted_threads_ >= most_threads_) return false;
    ++wanted_threads_;
    return true;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (deferred_) std::rethrow_exception(std::exchange(deferred_, nullptr));
    std::unique_lock lock(mutex_);
    if (rows.count() > 1) {
      while (workers_.count() + 1 < threads_) start_worker();
      add_threads();
    }
    rows_ = &rows;
    first_ = low_;
    end_ = first_ + rows.count();
    if (rows.count() > 1) changed_.notify_all();
    work(lock, 0);
    {
      const Stopwatch waiting(meter().waiting_ns);
      changed_.wait(lock, [&] { return in_work_ == 0; });
    }
    rows_ = nullptr;
    const int64_t filled = low_ - first_;
    if (failure_) {
      // The turn that failed is over; the next call makes the turns after it again.
      ++low_;
      next_ = low_;
      is_made_.assign(is_made_.size(), false);
      std::exception_ptr failure = std::exchange(failure_, nullptr);
      if (filled == 0) std::rethrow_exception(failure);
      deferred_ = std::move(failure);
    }
    return filled;
  }

 private:
  RandomMapFunction make_function() { return spec_.make(line_); }
  size_t slot_of(int64_t turn) const { return static_cast<size_t>(turn % inputs_.count()); }

  void start_worker() {
    workers_.start([this, worker = static_cast<size_t>(workers_.count()) + 1] { serve(worker); });
  }

  // For AUTOTUNE. Only when no turn has an input in a slot, because the slot of a turn depends on the number of slots.
  void add_threads() {
    while (threads_ < wanted_threads_ && low_ == taken_) {
      try {
        has_no_room_ = !inputs_.grow(input_slots(threads_ + 1));
        if (!has_no_room_) {
          functions_.push_back(make_function());
          start_worker();
        }
      } catch (const Error&) {  // no memory or no thread left: goes on with the threads there are
        has_no_room_ = true;
      }
      if (has_no_room_) {
        functions_.resize(static_cast<size_t>(threads_));
        wanted_threads_ = threads_;
        return;
      }
      ++threads_;
      meter().threads = threads_ - 1;
      meter().bytes = map_bytes(from_spec_, spec_, threads_);
    }
  }

  void serve(size_t worker) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_stopping_ || can_take(); });
      if (is_stopping_) return;
      const Stopwatch watch(meter().busy_ns);
      work(lock, worker);
    }
  }

  bool can_take() const {
    return rows_ != nullptr && !failure_ && next_ < end_ && next_ < low_ + inputs_.count() &&
           (next_ < taken_ || !is_input_over_);
  }
  // The consumer waits here only when the slowest turn blocks all others: every slot is taken.
  bool must_wait() const { return rows_ != nullptr && !failure_ && next_ < end_ && next_ >= low_ + inputs_.count(); }

  void work(std::unique_lock<std::mutex>& lock, size_t worker) {
    while (true) {
      if (!can_take()) {
        if (worker != 0 || !must_wait()) return;
        const Stopwatch waiting(meter().waiting_ns);
        changed_.wait(lock, [&] { return !must_wait(); });
        continue;
      }
      const int64_t turn = next_++;
      const size_t slot = slot_of(turn);
      const Rows input = inputs_.rows(static_cast<int64_t>(slot), 1);
      const bool is_here = turn < taken_;
      int64_t index = -1;
      ++in_work_;
      if (!is_here) {
        errors_[slot] = nullptr;
        if (!take_input(turn, slot, input, index)) {
          --in_work_;
          changed_.notify_all();
          return;
        }
      }
      const Rows row = rows_->row(turn - first_);
      const uint64_t key = mix_bits(epoch_key_, static_cast<uint64_t>(without_turn_ + turn));
      lock.unlock();
      std::exception_ptr error = errors_[slot];
      if (!error) error = make_row(input, row, {index, key, worker, slot});
      lock.lock();
      --in_work_;
      finish(turn, slot, error);
    }
  }

  // Takes inputs in the order of turns, so under the lock; with random access it only takes a number. False at the end.
  bool take_input(int64_t turn, size_t slot, const Rows& input, int64_t& index) {
    if (from_ != nullptr) {
      is_input_over_ = index_ >= from_->count();
      index = index_++;
    } else {
      try {
        is_input_over_ = input_->pull(input) == 0;
      } catch (...) {
        errors_[slot] = std::current_exception();
      }
    }
    if (is_input_over_) {
      next_ = turn;
      return false;
    }
    taken_ = turn + 1;
    return true;
  }

  struct RowWork {
    int64_t index;  // of an input that is still to be read, else -1
    uint64_t key;
    size_t worker, slot;
  };
  std::exception_ptr make_row(const Rows& input, const Rows& row, const RowWork& work) {
    if (work.index >= 0) {
      const Stopwatch watch(input_->meter().busy_ns);
      try {
        from_->read(work.index, input);
        input_->meter().elements.fetch_add(1, std::memory_order_relaxed);
      } catch (...) {
        return errors_[work.slot] = std::current_exception();
      }
    }
    try {
      set_largest(spec_.element, row, 0);
      functions_[work.worker](input.view(from_spec_, 0), row.slot(spec_.element, 0), work.key);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void finish(int64_t turn, size_t slot, const std::exception_ptr& error) {
    // Of several failures the first in order counts; later turns are made again, and fail again.
    if (error && (!failure_ || turn < failed_turn_)) {
      failure_ = error;
      failed_turn_ = turn;
    }
    is_made_[slot] = !error;
    while (low_ < next_ && is_made_[slot_of(low_)]) {
      is_made_[slot_of(low_)] = false;
      ++low_;
    }
    changed_.notify_all();
  }

  MemoryLine& line_;
  const std::unique_ptr<Stream> input_;
  const Indexed* const from_;
  const ElementSpec& from_spec_;
  const MapSpec& spec_;
  const int most_threads_;
  int threads_;
  std::atomic<int> wanted_threads_;
  std::atomic<bool> has_no_room_ = false;
  Slots inputs_;
  std::vector<std::exception_ptr> errors_;    // of taking the input of a turn, by slot
  std::vector<bool> is_made_;                 // by slot
  std::vector<RandomMapFunction> functions_;  // by worker

  std::mutex mutex_;
  std::condition_variable changed_;
  const Rows* rows_ = nullptr;  // of the call under way
  int64_t first_ = 0;           // the turn of its first row
  int64_t end_ = 0;
  int64_t low_ = 0;
  int64_t next_ = 0;
  int64_t taken_ = 0;
  int64_t index_ = 0;         // the next element of an input with random access
  int64_t without_turn_ = 0;  // elements of this epoch that were passed over before they had a turn
  uint64_t epoch_key_ = mix_bits(spec_.seed, 0);
  int64_t in_work_ = 0;
  int64_t failed_turn_ = 0;
  std::exception_ptr failure_;
  std::exception_ptr deferred_;  // of the element after the last one handed on
  bool is_input_over_ = false;
  bool is_stopping_ = false;
  Workers workers_;
};

class MapRecipe final : public Recipe {
 public:
  MapRecipe(const RecipePtr& input, MapSpec spec) : Recipe(spec.element, {input}), spec_(std::move(spec)) {}

  std::string text() const override { return spec_.text; }
  int64_t size() const override { return input().size(); }
  int64_t most_size() const override { return input().most_size(); }
  int64_t wanted_rows() const override {
    return input_slots(spec_.threads == AUTOTUNE ? most_threads() : spec_.threads);
  }
  RecipePtr over(const RecipePtr& input) const override { return std::make_shared<MapRecipe>(input, spec_); }
  Holding holding() const override {
    const bool is_tuned = spec_.threads == AUTOTUNE;
    const int least = is_tuned ? 1 : spec_.threads;
    return {.bytes = map_bytes(input().element(), spec_, least),
            .threads = least - 1,
            .most_bytes = is_tuned ? map_bytes(input().element(), spec_, most_threads()) : 0};
  }

 protected:
  std::unique_ptr<Stream> make(Build& build, Meter& meter, std::vector<std::unique_ptr<Stream>> inputs) const override {
    auto stream = std::make_unique<MapStream>(meter, build.line, std::move(inputs[0]), input().element(), spec_);
    if (spec_.threads == AUTOTUNE) build.tunable.push_back(stream.get());
    return stream;
  }

 private:
  const MapSpec spec_;
};

}  // namespace

RecipePtr make_map(const RecipePtr& input, MapSpec spec) {
  if (spec.threads < 1 && spec.threads != AUTOTUNE)
    throw Error(fmt::format("map: {} threads make no sense; give at least 1, or AUTOTUNE", spec.threads),
                ErrorKind::Usage);
  spec.element = checked(std::move(spec.element));
  return std::make_shared<MapRecipe>(input, std::move(spec));
}

}  // namespace plimsoll::input

namespace plimsoll {
namespace {

// A function of the user, with `thread_bytes` reserved for each thread.
input::MapSpec held_map(ElementSpec element, RandomMapFunction function, input::MapSpec spec, Bytes thread_bytes) {
  spec.element = std::move(element);
  spec.thread_bytes = thread_bytes;
  spec.make = [function = std::move(function), thread_bytes](MemoryLine& line) -> RandomMapFunction {
    auto held = std::make_shared<Reservation>(line.reserve(Tag::Data, thread_bytes));
    return [function, held](const ElementView& from, const ElementSlot& to, uint64_t key) { function(from, to, key); };
  };
  return spec;
}

}  // namespace

Dataset Dataset::random_map(ElementSpec spec, RandomMapFunction function, uint64_t seed, int threads,
                            Bytes thread_bytes) const {
  if (!function) throw Error("map needs a function", ErrorKind::Usage);
  const std::string text = fmt::format("random_map(to {}, seed {})", to_string(spec), seed);
  return input::make_dataset(input::make_map(
      recipe_,
      held_map(std::move(spec), std::move(function), {.seed = seed, .threads = threads, .text = text}, thread_bytes)));
}

Dataset Dataset::map(ElementSpec spec, MapFunction function, int threads, Bytes thread_bytes) const {
  if (!function) throw Error("map needs a function", ErrorKind::Usage);
  const std::string text = fmt::format("map(to {})", to_string(spec));
  return input::make_dataset(
      input::make_map(recipe_, held_map(
                                   std::move(spec),
                                   [function = std::move(function)](const ElementView& from, const ElementSlot& to,
                                                                    uint64_t) { function(from, to); },
                                   {.threads = threads, .text = text}, thread_bytes)));
}

}  // namespace plimsoll
