// take, skip and shard: every step-th element from a first one on, so many at most.
#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"

namespace plimsoll {
namespace {

using input::RecipePtr;
using input::Rows;
using input::Stream;

struct Selection {
  int64_t first = 0;
  int64_t step = 1;
  int64_t most = std::numeric_limits<int64_t>::max();  // elements

  int64_t count_of(int64_t all) const { return all <= first ? 0 : std::min(most, (all - first - 1) / step + 1); }
};

class IndexedSelection final : public input::IndexedOver {
 public:
  IndexedSelection(input::Meter& meter, std::unique_ptr<Stream> input, const Selection& selection)
      : IndexedOver(meter, std::move(input)), selection_(selection) {}

  int64_t count() const override { return selection_.count_of(from_.count()); }
  void read(int64_t first, const Rows& rows) const override {
    if (selection_.step == 1) return from_.read(selection_.first + first, rows);
    for (int64_t row = 0; row < rows.count(); ++row)
      from_.read(selection_.first + (first + row) * selection_.step, rows.row(row));
  }

 private:
  const Selection selection_;
};

class StreamedSelection final : public Stream {
 public:
  StreamedSelection(input::Meter& meter, std::unique_ptr<Stream> input, const Selection& selection)
      : Stream(meter), input_(std::move(input)), selection_(selection) {}

  int64_t skip(int64_t count, const Rows& scratch) override {
    const int64_t wanted = std::min(count, selection_.most - taken_);
    if (wanted <= 0 || !pass_to_next(scratch)) return 0;
    // From the first to the last wanted element, with the gaps between them.
    const int64_t distance = (wanted - 1) * selection_.step + 1;
    const int64_t passed = (input_->skip(distance, scratch) + selection_.step - 1) / selection_.step;
    gap_ = selection_.step - 1;
    taken_ += passed;
    return passed;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    taken_ = 0;
    gap_ = selection_.first;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    const int64_t most = std::min(rows.count(), selection_.most - taken_);
    if (most <= 0 || !pass_to_next(rows)) return 0;
    const int64_t filled = input_->pull(rows.front(selection_.step == 1 ? most : 1));
    gap_ = selection_.step - 1;
    taken_ += filled;
    return filled;
  }

 private:
  // `scratch` may be a row that is to be filled next.
  bool pass_to_next(const Rows& scratch) {
    const int64_t gap = std::exchange(gap_, 0);
    return gap == 0 || input_->skip(gap, scratch) == gap;
  }

  const std::unique_ptr<Stream> input_;
  const Selection selection_;
  int64_t taken_ = 0;
  int64_t gap_ = selection_.first;  // elements to pass over before the next one
};

class SelectRecipe final : public input::SameElements {
 public:
  SelectRecipe(const RecipePtr& input, const Selection& selection, std::string text)
      : SameElements(input), selection_(selection), text_(std::move(text)) {}

  std::string text() const override { return text_; }
  int64_t size() const override {
    const int64_t all = input().size();
    if (all == Dataset::kUnknown || selection_.most == 0) return selection_.most == 0 ? 0 : all;
    if (all != Dataset::kInfinite) return selection_.count_of(all);
    return selection_.most == std::numeric_limits<int64_t>::max() ? all : selection_.most;
  }
  int64_t most_size() const override {
    if (size() >= 0) return size();
    if (input().most_size() >= 0) return selection_.count_of(input().most_size());
    return selection_.most == std::numeric_limits<int64_t>::max() ? input().most_size() : selection_.most;
  }
  bool is_random_access() const override { return input().is_random_access(); }
  int64_t wanted_rows() const override { return input().wanted_rows(); }

 protected:
  std::unique_ptr<Stream> make(input::Build&, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    if (inputs[0]->indexed() != nullptr)
      return std::make_unique<IndexedSelection>(meter, std::move(inputs[0]), selection_);
    return std::make_unique<StreamedSelection>(meter, std::move(inputs[0]), selection_);
  }

 private:
  const Selection selection_;
  const std::string text_;
};

Dataset select(const Dataset& dataset, const Selection& selection, const std::string& text) {
  return input::make_dataset(input::below_maps(input::recipe_of(dataset), [&](const RecipePtr& input) -> RecipePtr {
    return std::make_shared<SelectRecipe>(input, selection, text);
  }));
}

}  // namespace

Dataset Dataset::take(int64_t count) const {
  if (count < -1)
    throw Error(fmt::format("take({}): give a number of elements, or -1 for all", count), ErrorKind::Usage);
  Selection selection;
  if (count >= 0) selection.most = count;
  return select(*this, selection, fmt::format("take({})", count));
}

Dataset Dataset::skip(int64_t count) const {
  if (count < -1)
    throw Error(fmt::format("skip({}): give a number of elements, or -1 for all", count), ErrorKind::Usage);
  Selection selection;
  selection.first = std::max<int64_t>(count, 0);
  if (count == -1) selection.most = 0;
  return select(*this, selection, fmt::format("skip({})", count));
}

Dataset Dataset::shard(int64_t shards, int64_t index) const {
  if (shards < 1 || index < 0 || index >= shards)
    throw Error(fmt::format("shard({}, {}): give a number of shards and one of 0 .. that - 1", shards, index),
                ErrorKind::Usage);
  return select(*this, {.first = index, .step = shards}, fmt::format("shard({},{})", shards, index));
}

}  // namespace plimsoll
