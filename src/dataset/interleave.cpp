// interleave and flat_map: each element becomes a dataset; several of these are open at once and take turns.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "dataset/origin.h"

namespace plimsoll {
namespace {

using dataset::Rows;
using dataset::Slots;
using dataset::Stream;

// A dataset that was made of an element, under way.
struct Open {
  dataset::RecipePtr recipe;
  std::deque<dataset::Meter> meters = {};
  std::vector<Stream*> tunable = {};
  std::unique_ptr<Stream> stream = {};
};

class InterleaveStream final : public Stream {
 public:
  InterleaveStream(dataset::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& from_spec,
                   const ElementSpec& spec, const InterleaveFunction& function, int64_t cycle, int64_t block)
      : Stream(meter),
        line_(line),
        input_(std::move(input)),
        from_spec_(from_spec),
        spec_(spec),
        function_(function),
        block_(block),
        element_(from_spec, 1, line),
        open_(static_cast<size_t>(cycle)) {}

  int64_t skip(int64_t count, const Rows& scratch) override {
    int64_t skipped = 0;
    while (skipped < count) {
      const int64_t wanted = count - skipped;
      const int64_t passed =
          advance(wanted, [&](Open& open, int64_t most) { return open.stream->skip(most, scratch); });
      if (passed == 0) break;
      skipped += passed;
    }
    return skipped;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    std::ranges::fill(open_, nullptr);
    epoch_ = epoch;
    taken_ = place_ = in_block_ = 0;
    is_input_over_ = false;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    return advance(rows.count(), [&](Open& open, int64_t most) {
      const int64_t filled = open.stream->pull(rows.front(most));
      give_shapes(open.recipe->element(), rows.front(filled));
      return filled;
    });
  }

 private:
  // Takes elements of the dataset whose turn it is, at most to the end of its block; 0 at the end.
  template <class Take>
  int64_t advance(int64_t most, const Take& take) {
    while (true) {
      std::unique_ptr<Open>& open = open_[static_cast<size_t>(place_)];
      if (open != nullptr) {
        const int64_t taken = take(*open, std::min(most, block_ - in_block_));
        if (taken > 0) {
          in_block_ += taken;
          if (in_block_ == block_) to_next_place();
          return taken;
        }
        open.reset();
        to_next_place();
      } else if (!is_input_over_) {
        open = open_next();
      } else {
        if (std::ranges::all_of(open_, [](const auto& place) { return place == nullptr; })) return 0;
        to_next_place();
      }
    }
  }
  void to_next_place() {
    place_ = (place_ + 1) % static_cast<int64_t>(open_.size());
    in_block_ = 0;
  }

  std::unique_ptr<Open> open_next() {
    is_input_over_ = input_->pull(element_.rows()) == 0;
    if (is_input_over_) return nullptr;
    ++taken_;
    auto open =
        std::make_unique<Open>(Open{.recipe = dataset::recipe_of(function_(element_.rows().view(from_spec_, 0)))});
    if (dataset::common_spec(spec_, open->recipe->element(), "interleave") != spec_)
      throw Error(
          fmt::format("interleave: element {} became a dataset of {}, which is no {}; give a dataset like it as "
                      "InterleaveOptions::like",
                      taken_ - 1, to_string(open->recipe->element()), to_string(spec_)),
          ErrorKind::BadData);
    dataset::Build build{line_, open->meters, open->tunable};
    open->stream = open->recipe->start(build);
    open->stream->rewind(mix_bits(epoch_, static_cast<uint64_t>(taken_)) >> 1U);
    return open;
  }

  MemoryLine& line_;
  const std::unique_ptr<Stream> input_;
  const ElementSpec& from_spec_;
  const ElementSpec& spec_;
  const InterleaveFunction& function_;
  const int64_t block_;
  Slots element_;
  std::vector<std::unique_ptr<Open>> open_;
  uint64_t epoch_ = 0;
  int64_t taken_ = 0;  // elements of the input
  int64_t place_ = 0;
  int64_t in_block_ = 0;
  bool is_input_over_ = false;
};

class InterleaveRecipe final : public dataset::Recipe {
 public:
  InterleaveRecipe(const dataset::RecipePtr& input, InterleaveFunction function, int64_t cycle, int64_t block,
                   dataset::RecipePtr like)
      : Recipe(like->element(), {input}),
        function_(std::move(function)),
        cycle_(cycle),
        block_(block),
        like_(std::move(like)) {}

  std::string text() const override { return fmt::format("interleave(cycle {}, block {})", cycle_, block_); }
  int64_t size() const override { return input().size() == 0 ? 0 : Dataset::kUnknown; }
  dataset::Holding holding() const override {
    dataset::Holding each;
    for_each_stage(*like_, [&](const Recipe& stage) {
      const dataset::Holding holding = stage.holding();
      each.bytes += holding.bytes;
      each.threads += holding.threads;
    });
    return {.bytes = Slots::bytes(input().element(), 1) + cycle_ * each.bytes,
            .threads = static_cast<int>(cycle_) * each.threads};
  }

 protected:
  std::unique_ptr<Stream> make(dataset::Build& build, dataset::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<InterleaveStream>(meter, build.line, std::move(inputs[0]), input().element(), element(),
                                              function_, cycle_, block_);
  }

 private:
  const InterleaveFunction function_;
  const int64_t cycle_, block_;
  const dataset::RecipePtr like_;
};

// What the first element becomes.
Dataset first_of(const Dataset& dataset, const InterleaveFunction& function) {
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  const ElementView* const element = iteration.next();
  if (element == nullptr)
    throw Error(
        fmt::format("interleave: '{}' is empty, so nobody knows what its elements become; give a dataset like it "
                    "as InterleaveOptions::like",
                    to_string(dataset)),
        ErrorKind::Usage);
  return function(*element);
}

}  // namespace

Dataset Dataset::interleave(InterleaveFunction function, const InterleaveOptions& options) const {
  if (!function) throw Error("interleave needs a function", ErrorKind::Usage);
  if (options.cycle < 1 || options.block < 1)
    throw Error(fmt::format("interleave: a cycle of {} and blocks of {} make no sense; give at least 1", options.cycle,
                            options.block),
                ErrorKind::Usage);
  const Dataset like = options.like ? *options.like : first_of(*this, function);
  return dataset::make_dataset(
      std::make_shared<InterleaveRecipe>(recipe_, std::move(function), options.cycle, options.block, like.recipe_));
}

Dataset Dataset::flat_map(InterleaveFunction function) const { return interleave(std::move(function), {.cycle = 1}); }

}  // namespace plimsoll
