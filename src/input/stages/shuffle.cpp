// shuffle: an order computed index by index, or a window from which elements are drawn.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "input/origin.h"
#include "input/stages/permutation.h"

namespace plimsoll {
namespace {

using input::RecipePtr;
using input::Rows;
using input::Slots;
using input::Stream;

constexpr int64_t kMostWindow = int64_t{1} << 32;  // so that bytes of a window can't overflow

class PerfectShuffle final : public input::IndexedOver {
 public:
  PerfectShuffle(input::Meter& meter, std::unique_ptr<Stream> input, const ShuffleOptions& options)
      : IndexedOver(meter, std::move(input)), options_(options) {
    rewind(0);
  }

  int64_t count() const override { return from_.count(); }
  void read(int64_t first, const Rows& rows) const override {
    input::Meter& meter = input_->meter();
    meter.elements.fetch_add(rows.count(), std::memory_order_relaxed);
    // Not timed: reading a clock would take as long as one row.
    if (rows.count() == 1) return from_.read((*order_)(first), rows);
    std::array<int64_t, 256> numbers;
    for (int64_t row = 0; row < rows.count(); row += numbers.size()) {
      const auto now = std::span(numbers).first(std::min(numbers.size(), static_cast<size_t>(rows.count() - row)));
      order_->fill(first + row, now);
      const input::Stopwatch watch(meter.busy_ns);
      from_.gather(now, rows.from(row).front(static_cast<int64_t>(now.size())));
    }
  }
  void rewind(uint64_t epoch) override {
    IndexedOver::rewind(epoch);
    order_.emplace(std::max<int64_t>(count(), 1), options_.seed, options_.reshuffle ? int64_t(epoch) : 0);
  }

 private:
  const ShuffleOptions options_;
  std::optional<input::Permutation> order_;
};

// Which place of a window is given out next.
class WindowDraws {
 public:
  explicit WindowDraws(const ShuffleOptions& options) : options_(options) { rewind(0); }
  void rewind(uint64_t epoch) {
    key_ = mix_bits(options_.seed, options_.reshuffle ? epoch : 0);
    drawn_ = 0;
  }
  int64_t below(int64_t count) {
    return std::min(count - 1, static_cast<int64_t>(unit_real(mix_bits(key_, drawn_++)) * static_cast<double>(count)));
  }

 private:
  const ShuffleOptions options_;
  uint64_t key_ = 0;
  uint64_t drawn_ = 0;
};

// A window over random access holds the numbers of its elements and reads an element when it is drawn.
class IndexWindow final : public Stream {
 public:
  IndexWindow(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ShuffleOptions& options)
      : Stream(meter),
        input_(std::move(input)),
        from_(*input_->indexed()),
        draws_(options),
        held_(line.reserve(Tag::Data, options.count * Bytes(sizeof(int64_t)))),
        window_(static_cast<size_t>(options.count)) {
    open_window();
  }

  int64_t skip(int64_t count, const Rows&) override {
    const int64_t now = std::min(count, filled_ + from_.count() - next_);
    for (int64_t i = 0; i < now; ++i) draw();
    return now;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    draws_.rewind(epoch);
    open_window();
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (filled_ == 0) return 0;
    from_.read(draw(), rows.row(0));
    return 1;
  }

 private:
  void open_window() {
    filled_ = next_ = std::min<int64_t>(static_cast<int64_t>(window_.size()), from_.count());
    for (int64_t i = 0; i < filled_; ++i) window_[static_cast<size_t>(i)] = i;
  }
  int64_t draw() {
    int64_t& place = window_[static_cast<size_t>(draws_.below(filled_))];
    const int64_t drawn = place;
    if (next_ < from_.count())
      place = next_++;
    else
      place = window_[static_cast<size_t>(--filled_)];
    return drawn;
  }

  const std::unique_ptr<Stream> input_;
  const input::Indexed& from_;
  WindowDraws draws_;
  const Reservation held_;
  std::vector<int64_t> window_;
  int64_t filled_ = 0;
  int64_t next_ = 0;  // the first element that was never in the window
};

class ElementWindow final : public Stream {
 public:
  ElementWindow(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& spec,
                const ShuffleOptions& options)
      : Stream(meter), input_(std::move(input)), spec_(spec), draws_(options), window_(spec, options.count, line) {}

  // Elements are made, because later ones replace them in the window, but none is copied out.
  int64_t skip(int64_t count, const Rows&) override {
    int64_t skipped = 0;
    for (; skipped < count && fill_window(); ++skipped) free_place_ = draws_.below(filled_);
    return skipped;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    draws_.rewind(epoch);
    filled_ = 0;
    free_place_.reset();
    is_input_over_ = false;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (!fill_window()) return 0;
    free_place_ = draws_.below(filled_);
    copy_row(spec_, window_.rows(), *free_place_, rows, 0);
    return 1;
  }

 private:
  // Fills the window, or takes all elements that are left; false when it is empty. If the input throws, the next call
  // goes on from there.
  bool fill_window() {
    if (free_place_ && !is_input_over_) {
      if (input_->pull(window_.rows(*free_place_, 1)) == 0)
        is_input_over_ = true;
      else
        free_place_.reset();
    }
    while (!is_input_over_ && filled_ < window_.count()) {
      const int64_t more = input_->pull(window_.rows(filled_, window_.count() - filled_));
      filled_ += more;
      is_input_over_ = more == 0;
    }
    if (free_place_) {
      if (const int64_t last = --filled_; *free_place_ != last)
        copy_row(spec_, window_.rows(), last, window_.rows(), *free_place_);
      free_place_.reset();
    }
    return filled_ > 0;
  }

  const std::unique_ptr<Stream> input_;
  const ElementSpec& spec_;
  WindowDraws draws_;
  Slots window_;
  int64_t filled_ = 0;
  std::optional<int64_t> free_place_;  // of the element drawn last
  bool is_input_over_ = false;
};

class ShuffleRecipe final : public input::SameElements {
 public:
  ShuffleRecipe(const RecipePtr& input, const ShuffleOptions& options) : SameElements(input), options_(options) {}

  std::string text() const override {
    const std::string window = options_.count > 0 ? fmt::format("{}, ", options_.count) : "";
    return fmt::format("shuffle({}seed {}{})", window, options_.seed, options_.reshuffle ? "" : ", same each epoch");
  }
  int64_t size() const override { return input().size(); }
  bool is_random_access() const override { return options_.count == 0; }
  input::Holding holding() const override {
    if (options_.count == 0) return {};
    return {.bytes = input().is_random_access() ? options_.count * Bytes(sizeof(int64_t))
                                                : Slots::bytes(element(), options_.count)};
  }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    if (options_.count == 0) return std::make_unique<PerfectShuffle>(meter, std::move(inputs[0]), options_);
    if (input().is_random_access())
      return std::make_unique<IndexWindow>(meter, build.line, std::move(inputs[0]), options_);
    return std::make_unique<ElementWindow>(meter, build.line, std::move(inputs[0]), element(), options_);
  }

 private:
  const ShuffleOptions options_;
};

}  // namespace

Dataset Dataset::shuffle(const ShuffleOptions& options) const {
  if (options.count < 0 || options.bytes < 0)
    throw Error(fmt::format("shuffle: a window of {} elements or {} bytes makes no sense; give a number above 0",
                            options.count, options.bytes),
                ErrorKind::Usage);
  if (options.count > 0 && options.bytes > 0)
    throw Error("shuffle: give the window in elements or in bytes, not both", ErrorKind::Usage);
  ShuffleOptions resolved = options;
  if (options.bytes > 0 && !is_random_access()) {
    resolved.count = options.bytes / Slots::bytes(element(), 1024) * 1024;
    if (resolved.count == 0) resolved.count = options.bytes / Slots::bytes(element(), 1);
    if (resolved.count == 0)
      throw Error(fmt::format("shuffle: {} hold no element of {}; give more", format_bytes(options.bytes),
                              format_bytes(Slots::bytes(element(), 1))),
                  ErrorKind::Usage);
  }
  // A window holds no more than there is.
  if (const int64_t most = recipe_->most_size(); most > 0) resolved.count = std::min(resolved.count, most);
  if (resolved.count > kMostWindow)
    throw Error(
        fmt::format("shuffle: a window of {} elements can't be held; give at most {}", resolved.count, kMostWindow),
        ErrorKind::Usage);
  if (resolved.count == 0 && !is_random_access())
    throw Error(fmt::format("shuffle: '{}' can't be read in any order; put shuffle() before it, give a window as in "
                            "shuffle(10'000), or cache() first",
                            to_string(*this)),
                ErrorKind::Usage);
  return input::make_dataset(input::below_maps(
      recipe_, [&](const RecipePtr& input) { return std::make_shared<ShuffleRecipe>(input, resolved); }));
}

}  // namespace plimsoll
