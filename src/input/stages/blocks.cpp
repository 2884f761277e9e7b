#include "input/stages/blocks.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"

namespace plimsoll::input {
namespace {

struct Blocks {
  Blocks(const BlockCut& of, int64_t elements) : cut(of), all(elements), count(taken_of(cut.period)) {}

  int64_t place_of_part(int64_t part, int64_t size) const {
    return part * (size / cut.parts) + std::min(part, size % cut.parts);
  }
  // Adjacent parts form one run.
  int64_t runs() const { return cut.stride == 1 ? 1 : cut.count; }
  int64_t begin_of(int64_t run, int64_t size) const { return place_of_part(cut.first + run * cut.stride, size); }
  int64_t end_of(int64_t run, int64_t size) const {
    return place_of_part(cut.first + run * cut.stride + (cut.stride == 1 ? cut.count : 1), size);
  }
  // Elements taken of a period of `size` elements.
  int64_t taken_of(int64_t size) const {
    int64_t taken = 0;
    for (int64_t run = 0; run < runs(); ++run) taken += end_of(run, size) - begin_of(run, size);
    return taken;
  }

  int64_t size() const { return all / cut.period * count + taken_of(all % cut.period); }
  struct Spot {
    int64_t place;  // in the whole
    int64_t left;   // elements from there to the end of the run
  };
  Spot find(int64_t element) const {
    const int64_t begin = element / count * cut.period, size = std::min(cut.period, all - begin);
    int64_t rest = element % count;
    for (int64_t run = 0; run < runs(); ++run) {
      const int64_t of_run = end_of(run, size) - begin_of(run, size);
      if (rest < of_run) return {begin + begin_of(run, size) + rest, of_run - rest};
      rest -= of_run;
    }
    return {all, 0};
  }
  int64_t place_of(int64_t element) const { return find(element).place; }
  int64_t left_in_block(int64_t element) const { return find(element).left; }

  BlockCut cut;
  int64_t all;    // elements
  int64_t count;  // that are taken of a whole period
};

class IndexedBlocks final : public IndexedOver {
 public:
  IndexedBlocks(Meter& meter, std::unique_ptr<Stream> input, const Blocks& blocks)
      : IndexedOver(meter, std::move(input)), blocks_(blocks) {}

  int64_t count() const override { return blocks_.size(); }
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
  // `scratch` may be a row that is to be filled next.
  bool pass_to_next(const Rows& scratch) {
    if (taken_ >= blocks_.size()) return false;
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
    return fmt::format("blocks({},{},{},{},{})", blocks_.cut.period, blocks_.cut.parts, blocks_.cut.first,
                       blocks_.cut.count, blocks_.cut.stride);
  }
  int64_t size() const override { return blocks_.size(); }
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

Dataset take_blocks(const Dataset& dataset, const BlockCut& cut) {
  if (cut.first < 0 || cut.count < 1 || cut.stride < 1 || cut.first + (cut.count - 1) * cut.stride + 1 > cut.parts ||
      cut.parts > cut.period)
    throw Error(fmt::format("blocks({}, {}, {}, {}, {}): a block must lie within its period", cut.period, cut.parts,
                            cut.first, cut.count, cut.stride),
                ErrorKind::Usage);
  if (dataset.size() < 0)
    throw Error("only a dataset whose number of elements is known can be cut into blocks", ErrorKind::Usage);
  return make_dataset(std::make_shared<BlocksRecipe>(recipe_of(dataset), Blocks(cut, dataset.size())));
}

}  // namespace plimsoll::input
