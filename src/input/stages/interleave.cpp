// interleave and flat_map: each element becomes a dataset; several of these are open at once and take turns.
#include "input/stages/interleave.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"

namespace plimsoll::input {

int64_t OpenDataset::pull(const Rows& rows, Meter& meter) {
  const auto started = std::chrono::steady_clock::now();
  const int64_t filled = stream->pull(rows);
  meter.busy_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - started).count();
  give_shapes(recipe->element(), rows.front(filled));
  return filled;
}

std::unique_ptr<OpenDataset> DatasetOpener::open_next() {
  is_over_ = is_over_ || input_->pull(element_.rows()) == 0;
  if (is_over_) return nullptr;
  ++taken_;
  auto open = std::make_unique<OpenDataset>();
  open->recipe = recipe_of(as_.function(element_.rows().view(from_, 0)));
  if (common_spec(as_.element(), open->recipe->element(), "interleave") != as_.element())
    throw Error(fmt::format("interleave: element {} became a dataset of {}, which is no {}; give a dataset like it as "
                            "InterleaveOptions::like",
                            taken_ - 1, to_string(open->recipe->element()), to_string(as_.element())),
                ErrorKind::BadData);
  Build build{line_, open->meters, open->tunable};
  open->stream = open->recipe->start(build);
  open->stream->rewind(mix_bits(epoch_, static_cast<uint64_t>(taken_)) >> 1U);
  return open;
}

void DatasetOpener::rewind(uint64_t epoch) {
  input_->rewind(epoch);
  epoch_ = epoch;
  taken_ = 0;
  is_over_ = false;
}

}  // namespace plimsoll::input

namespace plimsoll {
namespace {

using input::Interleaving;
using input::OpenDataset;
using input::Rows;
using input::Slots;
using input::Stream;

class InterleaveStream final : public Stream {
 public:
  InterleaveStream(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& from,
                   const Interleaving& as)
      : Stream(meter),
        opener_(std::move(input), from, as, line),
        block_(as.block),
        open_(static_cast<size_t>(as.cycle)) {}

  int64_t skip(int64_t count, const Rows& scratch) override {
    int64_t skipped = 0;
    while (skipped < count) {
      const int64_t passed =
          advance(count - skipped, [&](OpenDataset& open, int64_t most) { return open.stream->skip(most, scratch); });
      if (passed == 0) break;
      skipped += passed;
    }
    return skipped;
  }
  void rewind(uint64_t epoch) override {
    std::ranges::fill(open_, nullptr);
    opener_.rewind(epoch);
    place_ = in_block_ = 0;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    return advance(rows.count(), [&](OpenDataset& open, int64_t most) { return open.pull(rows.front(most), meter()); });
  }

 private:
  // Takes elements of the dataset whose turn it is, at most to the end of its block; 0 at the end.
  template <class Take>
  int64_t advance(int64_t most, const Take& take) {
    while (true) {
      std::unique_ptr<OpenDataset>& open = open_[static_cast<size_t>(place_)];
      if (open != nullptr) {
        const int64_t taken = take(*open, std::min(most, block_ - in_block_));
        if (taken > 0) {
          in_block_ += taken;
          if (in_block_ == block_) to_next_place();
          return taken;
        }
        open.reset();
        to_next_place();
      } else if (!opener_.is_over()) {
        open = opener_.open_next();
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

  input::DatasetOpener opener_;
  const int64_t block_;
  std::vector<std::unique_ptr<OpenDataset>> open_;
  int64_t place_ = 0;
  int64_t in_block_ = 0;
};

class InterleaveRecipe final : public input::Recipe {
 public:
  InterleaveRecipe(const input::RecipePtr& input, Interleaving as)
      : Recipe(as.element(), {input}), as_(std::move(as)) {}

  std::string text() const override { return fmt::format("interleave(cycle {}, block {})", as_.cycle, as_.block); }
  int64_t size() const override { return input().size() == 0 ? 0 : Dataset::kUnknown; }
  input::Holding holding() const override {
    input::Holding each;
    for_each_stage(*as_.like, [&](const Recipe& stage) {
      const input::Holding holding = stage.holding();
      each.bytes += holding.bytes;
      each.threads += holding.threads;
    });
    const Bytes open = Slots::bytes(input().element(), 1) + as_.cycle * each.bytes;
    const int threads = static_cast<int>(as_.cycle) * each.threads;
    if (as_.threads == 1) return {.bytes = open, .threads = threads};
    const bool is_tuned = as_.threads == AUTOTUNE;
    const int least = is_tuned ? 1 : as_.threads;
    return {
        .bytes = open + input::parallel_interleave_bytes(as_, least),
        .threads = threads + least - 1,
        .most_bytes = is_tuned ? open + input::parallel_interleave_bytes(as_, input::most_interleave_threads(as_)) : 0};
  }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    if (as_.threads == 1)
      return std::make_unique<InterleaveStream>(meter, build.line, std::move(inputs[0]), input().element(), as_);
    auto stream = input::make_parallel_interleave(meter, build.line, std::move(inputs[0]), input().element(), as_);
    if (as_.threads == AUTOTUNE) build.tunable.push_back(stream.get());
    return stream;
  }

 private:
  const Interleaving as_;
};

// The dataset that the function makes of the first element.
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
  constexpr int64_t kMostOpen = 1 << 16;
  if (options.cycle < 1 || options.cycle > kMostOpen || options.block < 1)
    throw Error(fmt::format("interleave: a cycle of {} and blocks of {} make no sense; give at least 1 and a cycle of "
                            "at most {}",
                            options.cycle, options.block, kMostOpen),
                ErrorKind::Usage);
  if (options.threads < 1 && options.threads != AUTOTUNE)
    throw Error(fmt::format("interleave: {} threads make no sense; give at least 1, or AUTOTUNE", options.threads),
                ErrorKind::Usage);
  const Dataset like = options.like ? *options.like : first_of(*this, function);
  // Threads beyond the number of open datasets would have nothing to do.
  const int threads = options.threads > options.cycle ? static_cast<int>(options.cycle) : options.threads;
  return input::make_dataset(std::make_shared<InterleaveRecipe>(
      recipe_, Interleaving{std::move(function), like.recipe_, options.cycle, options.block, threads}));
}

Dataset Dataset::flat_map(InterleaveFunction function) const { return interleave(std::move(function), {.cycle = 1}); }

}  // namespace plimsoll
