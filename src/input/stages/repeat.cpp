// repeat: the input again from its first element, in another epoch.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"

namespace plimsoll {
namespace {

using input::Rows;
using input::Stream;

class RepeatStream final : public Stream {
 public:
  // `size` is that of the input, as Dataset::size.
  RepeatStream(input::Meter& meter, std::unique_ptr<Stream> input, int64_t times, int64_t size)
      : Stream(meter), input_(std::move(input)), times_(times), size_(size) {}

  int64_t skip(int64_t count, const Rows& scratch) override {
    int64_t skipped = 0;
    while (skipped < count) {
      // Whole rounds are skipped without touching the input.
      if (const int64_t rounds = size_ > 0 ? (count - skipped) / size_ : 0; in_round_ == 0 && rounds > 0) {
        const int64_t passed = times_ < 0 ? rounds : std::min(rounds, times_ - round_);
        if (passed == 0) break;
        skipped += passed * size_;
        round_ += passed;
        input_->rewind(input_epoch());
        continue;
      }
      if (is_over()) break;
      const int64_t wanted = size_ > 0 ? std::min(count - skipped, size_ - in_round_) : count - skipped;
      const int64_t passed = input_->skip(wanted, scratch);
      skipped += passed;
      in_round_ += passed;
      if ((passed < wanted || in_round_ == size_) && !start_round()) break;
    }
    return skipped;
  }
  void rewind(uint64_t epoch) override {
    epoch_ = epoch;
    round_ = in_round_ = 0;
    input_->rewind(input_epoch());
  }

 protected:
  int64_t fill(const Rows& rows) override {
    while (!is_over()) {
      const int64_t filled = input_->pull(rows);
      in_round_ += filled;
      if (filled > 0) return filled;
      if (!start_round()) break;
    }
    return 0;
  }

 private:
  bool is_over() const { return times_ >= 0 && round_ >= times_; }
  // Ends where the input is empty, which would otherwise be repeated for ever.
  bool start_round() {
    if (in_round_ == 0) return false;
    ++round_;
    in_round_ = 0;
    input_->rewind(input_epoch());
    return !is_over();
  }
  // The input's epoch: each round of each epoch has one of its own.
  uint64_t input_epoch() const {
    return (times_ < 0 ? epoch_ << 32U : epoch_ * static_cast<uint64_t>(times_)) + static_cast<uint64_t>(round_);
  }

  const std::unique_ptr<Stream> input_;
  const int64_t times_;
  const int64_t size_;
  uint64_t epoch_ = 0;
  int64_t round_ = 0;
  int64_t in_round_ = 0;  // elements of this round handed on
};

class RepeatRecipe final : public input::SameElements {
 public:
  RepeatRecipe(const input::RecipePtr& input, int64_t times) : SameElements(input), times_(times) {}

  std::string text() const override { return times_ < 0 ? "repeat()" : fmt::format("repeat({})", times_); }
  int64_t size() const override {
    const int64_t once = input().size();
    if (times_ == 0 || once == 0) return 0;
    if (times_ < 0) return Dataset::kInfinite;
    return once < 0 ? once : once * times_;
  }
  int64_t most_size() const override { return size(); }
  int64_t wanted_rows() const override { return input().wanted_rows(); }

 protected:
  std::unique_ptr<Stream> make(input::Build&, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<RepeatStream>(meter, std::move(inputs[0]), times_, input().size());
  }

 private:
  const int64_t times_;
};

}  // namespace

Dataset Dataset::repeat(int64_t times) const {
  if (times < -1) throw Error(fmt::format("repeat({}): give how often, or nothing for ever", times), ErrorKind::Usage);
  return input::make_dataset(std::make_shared<RepeatRecipe>(recipe_, times));
}

}  // namespace plimsoll
