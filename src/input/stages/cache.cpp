// cache in memory: each element stays in a slot of its own once it was read.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"

namespace plimsoll {
namespace {

using input::Rows;
using input::Slots;
using input::Stream;

class CacheStream final : public input::IndexedStream {
 public:
  // `size` as Dataset::size, with room for `most` elements.
  CacheStream(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& spec,
              int64_t size, int64_t most)
      : IndexedStream(meter), input_(std::move(input)), spec_(spec), kept_(spec, most, line), size_(size) {}

  // Where only a bound of the size is known, the first call reads the whole input.
  int64_t count() const override {
    if (size_ >= 0) return size_;
    take_until(kept_.count());
    return taken_;
  }
  void read(int64_t first, const Rows& rows) const override {
    take_until(first + rows.count());
    for (int64_t row = 0; row < rows.count(); ++row) copy_row(spec_, kept_.rows(), first + row, rows, row);
  }
  // The input is not rewound: cached elements are those of one epoch, whatever epoch is asked for.
  void rewind(uint64_t epoch) override { IndexedStream::rewind(epoch); }

 private:
  // Reads the input in order up to `end`, whichever element is asked for.
  void take_until(int64_t end) const {
    if (taken_ >= end) return;
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    try {
      while (taken_ < end && !is_input_over_) {
        const int64_t more = input_->pull(kept_.rows(taken_, end - taken_));
        is_input_over_ = more == 0;
        taken_ += more;
      }
      if (is_input_over_ && taken_ < size_)
        throw Error(fmt::format("cache: the input ended after {} of {} elements", taken_.load(), size_),
                    ErrorKind::BadData);
    } catch (...) {
      // The input has passed the bad element: later elements would get wrong numbers.
      failure_ = std::current_exception();
      throw;
    }
  }

  const std::unique_ptr<Stream> input_;
  const ElementSpec& spec_;
  const Slots kept_;
  const int64_t size_;
  mutable std::mutex mutex_;
  mutable std::atomic<int64_t> taken_ = 0;
  mutable bool is_input_over_ = false;
  mutable std::exception_ptr failure_;
};

class CacheRecipe final : public input::SameElements {
 public:
  explicit CacheRecipe(const input::RecipePtr& input) : SameElements(input) {}

  std::string text() const override { return "cache()"; }
  int64_t size() const override { return input().size(); }
  bool is_random_access() const override { return true; }
  input::Holding holding() const override { return {.bytes = Slots::bytes(element(), most_size())}; }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<CacheStream>(meter, build.line, std::move(inputs[0]), element(), size(), most_size());
  }
};

}  // namespace

Dataset Dataset::cache() const {
  if (recipe_->most_size() < 0)
    throw Error(
        fmt::format("cache: '{}' may have any number of elements, and nobody knows how many bytes they take; put "
                    "take(n) before cache(), or cache it in a file",
                    to_string(*this)),
        ErrorKind::Usage);
  return input::make_dataset(std::make_shared<CacheRecipe>(recipe_));
}

}  // namespace plimsoll
