// zip, concatenate and enumerate: datasets side by side, one after the other, and with their numbers.
#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"

namespace plimsoll {
namespace {

using input::Indexed;
using input::RecipePtr;
using input::Rows;
using input::Stream;
using Streams = std::vector<std::unique_ptr<Stream>>;

bool all_indexed(const Streams& streams) {
  return std::ranges::all_of(streams, [](const auto& stream) { return stream->indexed() != nullptr; });
}

class ZipOfIndexed final : public input::IndexedStream {
 public:
  ZipOfIndexed(input::Meter& meter, Streams inputs, std::vector<size_t> starts)
      : IndexedStream(meter), inputs_(std::move(inputs)), starts_(std::move(starts)) {}

  int64_t count() const override {
    int64_t least = inputs_[0]->indexed()->count();
    for (const auto& input : inputs_) least = std::min(least, input->indexed()->count());
    return least;
  }
  void read(int64_t first, const Rows& rows) const override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->indexed()->read(first, rows.components_from(starts_[i]));
  }
  void rewind(uint64_t epoch) override {
    IndexedStream::rewind(epoch);
    for (const auto& input : inputs_) input->rewind(epoch);
  }

 private:
  const Streams inputs_;
  const std::vector<size_t> starts_;  // the first component of each input
};

class ZipOfStreams final : public Stream {
 public:
  ZipOfStreams(input::Meter& meter, Streams inputs, std::vector<size_t> starts)
      : Stream(meter), inputs_(std::move(inputs)), starts_(std::move(starts)) {}

  int64_t skip(int64_t count, const Rows& scratch) override {
    for (size_t i = 0; i < inputs_.size(); ++i)
      count = std::min(count, inputs_[i]->skip(count, scratch.components_from(starts_[i])));
    return count;
  }
  void rewind(uint64_t epoch) override {
    for (const auto& input : inputs_) input->rewind(epoch);
    failure_ = nullptr;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (failure_) std::rethrow_exception(failure_);
    int64_t filled = rows.count();
    try {
      for (size_t i = 0; i < inputs_.size(); ++i)
        filled = std::min(filled, inputs_[i]->pull_all(rows.components_from(starts_[i]).front(filled)));
    } catch (...) {
      // The inputs are at different elements now: going on would pair elements that do not belong together.
      failure_ = std::current_exception();
      throw;
    }
    return filled;
  }

 private:
  const Streams inputs_;
  const std::vector<size_t> starts_;
  std::exception_ptr failure_;
};

ElementSpec side_by_side(const std::vector<RecipePtr>& inputs) {
  ElementSpec spec;
  for (const RecipePtr& input : inputs) spec.insert(spec.end(), input->element().begin(), input->element().end());
  return input::checked(std::move(spec));
}

class ZipRecipe final : public input::Recipe {
 public:
  explicit ZipRecipe(const std::vector<RecipePtr>& inputs) : Recipe(side_by_side(inputs), inputs) {}

  std::string text() const override { return "zip"; }
  int64_t size() const override {
    int64_t least = Dataset::kInfinite;
    for (const RecipePtr& input : inputs()) {
      const int64_t size = input->size();
      if (size == Dataset::kUnknown) return Dataset::kUnknown;
      if (size != Dataset::kInfinite) least = least == Dataset::kInfinite ? size : std::min(least, size);
    }
    return least;
  }
  bool is_random_access() const override {
    return std::ranges::all_of(inputs(), [](const RecipePtr& input) { return input->is_random_access(); });
  }
  int64_t wanted_rows() const override {
    int64_t most = 1;
    for (const RecipePtr& input : inputs()) most = std::max(most, input->wanted_rows());
    return most;
  }

 protected:
  std::unique_ptr<Stream> make(input::Build&, input::Meter& meter, Streams streams) const override {
    std::vector<size_t> starts;
    size_t start = 0;
    for (const RecipePtr& input : inputs()) {
      starts.push_back(start);
      start += input->element().size();
    }
    if (all_indexed(streams)) return std::make_unique<ZipOfIndexed>(meter, std::move(streams), std::move(starts));
    return std::make_unique<ZipOfStreams>(meter, std::move(streams), std::move(starts));
  }
};

class ConcatenateStream final : public Stream, public Indexed {
 public:
  ConcatenateStream(input::Meter& meter, Streams inputs, const input::Recipe& recipe)
      : Stream(meter), inputs_(std::move(inputs)), recipe_(recipe), is_indexed_(all_indexed(inputs_)) {}

  const Indexed* indexed() const override { return is_indexed_ ? this : nullptr; }
  int64_t count() const override { return inputs_[0]->indexed()->count() + inputs_[1]->indexed()->count(); }
  void read(int64_t first, const Rows& rows) const override {
    const int64_t border = inputs_[0]->indexed()->count();
    const int64_t before = std::clamp<int64_t>(border - first, 0, rows.count());
    if (before > 0) read_from(0, first, rows.front(before));
    if (before < rows.count()) read_from(1, first + before - border, rows.from(before));
  }

  int64_t skip(int64_t count, const Rows& scratch) override {
    int64_t skipped = 0;
    while (true) {
      skipped += inputs_[at_]->skip(count - skipped, scratch);
      if (skipped == count || at_ == 1) return skipped;
      ++at_;
    }
  }
  void rewind(uint64_t epoch) override {
    for (const auto& input : inputs_) input->rewind(epoch);
    at_ = 0;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    int64_t filled = inputs_[at_]->pull(rows);
    if (filled == 0 && at_ == 0) filled = inputs_[++at_]->pull(rows);
    give_shapes(recipe_.inputs()[at_]->element(), rows.front(filled));
    return filled;
  }

 private:
  void read_from(size_t input, int64_t first, const Rows& rows) const {
    inputs_[input]->indexed()->read(first, rows);
    give_shapes(recipe_.inputs()[input]->element(), rows);
  }

  const Streams inputs_;
  const input::Recipe& recipe_;
  const bool is_indexed_;
  size_t at_ = 0;
};

class ConcatenateRecipe final : public input::Recipe {
 public:
  ConcatenateRecipe(const RecipePtr& first, const RecipePtr& second)
      : Recipe(input::common_spec(first->element(), second->element(), "concatenate"), {first, second}) {}

  std::string text() const override { return "concatenate"; }
  int64_t size() const override {
    const int64_t first = inputs()[0]->size(), second = inputs()[1]->size();
    if (first == Dataset::kInfinite || second == Dataset::kInfinite) return Dataset::kInfinite;
    return first < 0 || second < 0 ? Dataset::kUnknown : first + second;
  }
  bool is_random_access() const override { return inputs()[0]->is_random_access() && inputs()[1]->is_random_access(); }
  int64_t wanted_rows() const override { return std::max(inputs()[0]->wanted_rows(), inputs()[1]->wanted_rows()); }

 protected:
  std::unique_ptr<Stream> make(input::Build&, input::Meter& meter, Streams streams) const override {
    return std::make_unique<ConcatenateStream>(meter, std::move(streams), *this);
  }
};

class EnumerateStream final : public Stream, public Indexed {
 public:
  EnumerateStream(input::Meter& meter, std::unique_ptr<Stream> input, int64_t start)
      : Stream(meter), input_(std::move(input)), start_(start) {}

  const Indexed* indexed() const override { return input_->indexed() != nullptr ? this : nullptr; }
  int64_t count() const override { return input_->indexed()->count(); }
  void read(int64_t first, const Rows& rows) const override {
    input_->indexed()->read(first, rows.components_from(1));
    number(first, rows);
  }

  int64_t skip(int64_t count, const Rows& scratch) override {
    const int64_t skipped = input_->skip(count, scratch.components_from(1));
    position_ += skipped;
    return skipped;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    position_ = 0;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    const int64_t filled = input_->pull(rows.components_from(1));
    number(position_, rows.front(filled));
    position_ += filled;
    return filled;
  }

 private:
  void number(int64_t first, const Rows& rows) const {
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t index = start_ + first + row;
      std::memcpy(rows.at(0, row), &index, sizeof index);
    }
  }

  const std::unique_ptr<Stream> input_;
  const int64_t start_;
  int64_t position_ = 0;
};

ElementSpec numbered(const ElementSpec& spec) {
  ElementSpec with_number = {{"index", DType::I64, {}, {}}};
  with_number.insert(with_number.end(), spec.begin(), spec.end());
  return input::checked(std::move(with_number));
}

class EnumerateRecipe final : public input::Recipe {
 public:
  EnumerateRecipe(const RecipePtr& input, int64_t start) : Recipe(numbered(input->element()), {input}), start_(start) {}

  std::string text() const override { return fmt::format("enumerate({})", start_); }
  int64_t size() const override { return input().size(); }
  bool is_random_access() const override { return input().is_random_access(); }
  int64_t wanted_rows() const override { return input().wanted_rows(); }

 protected:
  std::unique_ptr<Stream> make(input::Build&, input::Meter& meter, Streams streams) const override {
    return std::make_unique<EnumerateStream>(meter, std::move(streams[0]), start_);
  }

 private:
  const int64_t start_;
};

}  // namespace

Dataset Dataset::zip(const std::vector<Dataset>& datasets) {
  if (datasets.empty()) throw Error("zip needs at least one dataset", ErrorKind::Usage);
  std::vector<RecipePtr> inputs;
  for (const Dataset& dataset : datasets) inputs.push_back(dataset.recipe_);
  return input::make_dataset(std::make_shared<ZipRecipe>(inputs));
}

Dataset Dataset::concatenate(const Dataset& other) const {
  return input::make_dataset(std::make_shared<ConcatenateRecipe>(recipe_, other.recipe_));
}

Dataset Dataset::enumerate(int64_t start) const {
  return input::make_dataset(std::make_shared<EnumerateRecipe>(recipe_, start));
}

}  // namespace plimsoll
