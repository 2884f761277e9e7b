#include "dataset/blocks.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "dataset/origin.h"

namespace plimsoll::dataset {
namespace {

struct Blocks {
  int64_t period, first, count;

  int64_t count_of(int64_t all) const {
    return all / period * count + std::clamp<int64_t>(all % period - first, 0, count);
  }
  int64_t place_of(int64_t element) const { return element / count * period + first + element % count; }
  int64_t left_in_block(int64_t element) const { return count - element % count; }
};

class IndexedBlocks final : public IndexedOver {
 public:
  IndexedBlocks(Meter& meter, std::unique_ptr<Stream> input, const Blocks& blocks)
      : IndexedOver(meter, std::move(input)), blocks_(blocks) {}

  int64_t count() const override { return blocks_.count_of(from_.count()); }
  void read(int64_t first, const Rows& rows) const override {
    for (int64_t row = 0; row < rows.count();) {
      const int64_t now = std::min(rows.count() - row, blocks_.left_in_block(first + row));
      from_.read(blocks_.place_of(first + row), rows.from(row).front(now));
      row += now;
    }
  }

 private:
  const Blocks blocks_;
};

class StreamedBlocks final : public Stream {
 public:
  StreamedBlocks(Meter& meter, std::unique_ptr<Stream> input, const Blocks& blocks)
      : Stream(meter), input_(std::move(input)), blocks_(blocks) {}

  int64_t skip(int64_t count, const Rows& scratch) override {
    int64_t passed = 0;
    while (passed < count && pass_to_next(scratch)) {
      const int64_t wanted = std::min(count - passed, blocks_.left_in_block(taken_));
      const int64_t now = input_->skip(wanted, scratch);
      advance(now);
      passed += now;
      if (now < wanted) break;
    }
    return passed;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    taken_ = place_ = 0;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (!pass_to_next(rows)) return 0;
    const int64_t filled = input_->pull(rows.front(std::min(rows.count(), blocks_.left_in_block(taken_))));
    advance(filled);
    return filled;
  }

 private:
  void advance(int64_t elements) {
    taken_ += elements;
    place_ += elements;
  }
  // A row about to be filled is scratch until then.
  bool pass_to_next(const Rows& scratch) {
    const int64_t gap = blocks_.place_of(taken_) - place_;
    if (gap > 0) place_ += input_->skip(gap, scratch);
    return place_ == blocks_.place_of(taken_);
  }

  const std::unique_ptr<Stream> input_;
  const Blocks blocks_;
  int64_t taken_ = 0;  // elements handed on
  int64_t place_ = 0;  // of the next element of the input
};

class BlocksRecipe final : public SameElements {
 public:
  BlocksRecipe(const RecipePtr& input, const Blocks& blocks) : SameElements(input), blocks_(blocks) {}

  std::string text() const override {
    return fmt::format("blocks({},{},{})", blocks_.period, blocks_.first, blocks_.count);
  }
  int64_t size() const override { return input().size() < 0 ? input().size() : blocks_.count_of(input().size()); }
  bool is_random_access() const override { return input().is_random_access(); }
  int64_t wanted_rows() const override { return input().wanted_rows(); }

 protected:
  std::unique_ptr<Stream> make(Build& /*build*/, Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    if (inputs[0]->indexed() != nullptr) return std::make_unique<IndexedBlocks>(meter, std::move(inputs[0]), blocks_);
    return std::make_unique<StreamedBlocks>(meter, std::move(inputs[0]), blocks_);
  }

 private:
  const Blocks blocks_;
};

}  // namespace

Dataset take_blocks(const Dataset& dataset, int64_t period, int64_t first, int64_t count) {
  if (first < 0 || count < 1 || first + count > period)
    throw Error(fmt::format("blocks({}, {}, {}): a block must lie within its period", period, first, count),
                ErrorKind::Usage);
  return make_dataset(std::make_shared<BlocksRecipe>(recipe_of(dataset), Blocks{period, first, count}));
}

}  // namespace plimsoll::dataset
