// filter and skip_corrupt: elements are left out.
#include <algorithm>
#include <deque>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"

namespace plimsoll {
namespace {

using input::Rows;
using input::Stream;

class FilterStream final : public Stream {
 public:
  FilterStream(input::Meter& meter, std::unique_ptr<Stream> input, const ElementSpec& spec, const Predicate& predicate)
      : Stream(meter), input_(std::move(input)), spec_(spec), predicate_(predicate) {}

  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    failures_.clear();
  }

 protected:
  int64_t fill(const Rows& rows) override {
    int64_t kept = 0;
    while (kept == 0) {
      // The predicate failed on a row; the other rows of the same call were tested and handed on.
      if (!failures_.empty()) {
        const std::exception_ptr failure = failures_.front();
        failures_.pop_front();
        std::rethrow_exception(failure);
      }
      const int64_t pulled = input_->pull(rows);
      if (pulled == 0) return 0;
      for (int64_t row = 0; row < pulled; ++row) {
        if (!passes(rows.view(spec_, row))) continue;
        if (kept != row) copy_row(spec_, rows, row, rows, kept);
        ++kept;
      }
    }
    return kept;
  }

 private:
  bool passes(const ElementView& element) {
    try {
      return predicate_(element);
    } catch (...) {
      failures_.push_back(std::current_exception());
      return false;
    }
  }

  const std::unique_ptr<Stream> input_;
  const ElementSpec& spec_;
  const Predicate& predicate_;
  std::deque<std::exception_ptr> failures_;
};

class CorruptStream final : public Stream {
 public:
  CorruptStream(input::Meter& meter, std::unique_ptr<Stream> input, int64_t most)
      : Stream(meter), input_(std::move(input)), most_(most) {}

  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    skipped_ = 0;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    while (true) {
      try {
        return input_->pull(rows);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::BadData) throw;
        meter().count_skipped(error.what());
        if (++skipped_ > most_)
          throw Error(fmt::format("more than {} bad elements, the last: {}", most_, error.what()), ErrorKind::BadData);
      }
    }
  }

 private:
  const std::unique_ptr<Stream> input_;
  const int64_t most_;
  int64_t skipped_ = 0;  // in this epoch
};

class FilterRecipe final : public input::SameElements {
 public:
  FilterRecipe(const input::RecipePtr& input, Predicate predicate)
      : SameElements(input), predicate_(std::move(predicate)) {}

  std::string text() const override { return "filter()"; }
  int64_t size() const override { return input().size() == 0 ? 0 : Dataset::kUnknown; }
  int64_t wanted_rows() const override { return input().wanted_rows(); }

 protected:
  std::unique_ptr<Stream> make(input::Build&, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<FilterStream>(meter, std::move(inputs[0]), element(), predicate_);
  }

 private:
  const Predicate predicate_;
};

class CorruptRecipe final : public input::SameElements {
 public:
  CorruptRecipe(const input::RecipePtr& input, int64_t most) : SameElements(input), most_(most) {}

  std::string text() const override { return fmt::format("skip_corrupt({})", most_); }
  int64_t size() const override { return input().size() > 0 && most_ > 0 ? Dataset::kUnknown : input().size(); }
  int64_t wanted_rows() const override { return input().wanted_rows(); }

 protected:
  std::unique_ptr<Stream> make(input::Build&, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<CorruptStream>(meter, std::move(inputs[0]), most_);
  }

 private:
  const int64_t most_;
};

}  // namespace

Dataset Dataset::filter(Predicate predicate) const {
  if (!predicate) throw Error("filter needs a function", ErrorKind::Usage);
  return input::make_dataset(std::make_shared<FilterRecipe>(recipe_, std::move(predicate)));
}

Dataset Dataset::skip_corrupt(int64_t most) const {
  if (most < 0) throw Error(fmt::format("skip_corrupt({}): give how many at most", most), ErrorKind::Usage);
  return input::make_dataset(std::make_shared<CorruptRecipe>(recipe_, most));
}

}  // namespace plimsoll
