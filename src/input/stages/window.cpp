// window and unbatch: batches that overlap, and batches taken apart.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"

namespace plimsoll {
namespace {

using input::Column;
using input::Rows;
using input::Slots;
using input::Stream;

struct WindowSpec {
  int64_t size = 1;
  int64_t shift = 1;
  int64_t stride = 1;
  bool drop_remainder = false;

  int64_t span() const { return (size - 1) * stride + 1; }  // from the first element to the last
  int64_t filled(int64_t elements) const { return std::min(size, (elements + stride - 1) / stride); }
  int64_t windows(int64_t elements) const {
    if (!drop_remainder) return (elements + shift - 1) / shift;
    return elements < span() ? 0 : (elements - span()) / shift + 1;
  }
};

// The rows of one window; `columns` has one for each component.
Rows rows_in(const ElementSpec& spec, const Rows& rows, int64_t row, int64_t count, std::vector<Column>& columns) {
  for (size_t i = 0; i < spec.size(); ++i) columns[i] = {rows.at(i, row), spec[i].bytes(), nullptr};
  return {columns.data(), 0, count};
}

void set_shapes(const ElementSpec& spec, const Rows& rows, int64_t row, int64_t filled) {
  for (size_t i = 0; i < spec.size(); ++i)
    if (Dims* const shape = rows.shape(i, row); shape != nullptr) {
      *shape = spec[i].shape;
      shape->insert(0, filled);
    }
}

class IndexedWindows final : public input::IndexedOver {
 public:
  IndexedWindows(input::Meter& meter, std::unique_ptr<Stream> input, const ElementSpec& spec, const WindowSpec& window)
      : IndexedOver(meter, std::move(input)), spec_(spec), window_(window) {}

  int64_t count() const override { return window_.windows(from_.count()); }
  void read(int64_t first, const Rows& rows) const override {
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t start = (first + row) * window_.shift;
      const int64_t filled = window_.filled(from_.count() - start);
      std::vector<Column> columns(spec_.size());
      const Rows inner = rows_in(spec_, rows, row, filled, columns);
      if (window_.stride == 1) {
        from_.read(start, inner);
      } else {
        for (int64_t i = 0; i < filled; ++i) from_.read(start + i * window_.stride, inner.row(i));
      }
      set_shapes(spec_, rows, row, filled);
    }
  }

 private:
  const ElementSpec& spec_;  // of the input
  const WindowSpec window_;
};

class StreamedWindows final : public Stream {
 public:
  StreamedWindows(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& spec,
                  const WindowSpec& window)
      : Stream(meter),
        input_(std::move(input)),
        spec_(spec),
        window_(window),
        ring_(spec, window.span(), line),
        columns_(spec.size()) {}

  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    start_ = end_ = 0;
    is_input_over_ = false;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (!take_elements(rows)) return 0;
    const int64_t filled = window_.filled(end_ - start_);
    if (filled == 0 || (window_.drop_remainder && filled < window_.size)) return 0;
    const Rows inner = rows_in(spec_, rows, 0, filled, columns_);
    for (int64_t i = 0; i < filled; ++i) copy_row(spec_, place_of(start_ + i * window_.stride), 0, inner, i);
    set_shapes(spec_, rows, 0, filled);
    start_ += window_.shift;
    return 1;
  }

 private:
  Rows place_of(int64_t element) const { return ring_.rows(element % ring_.count(), 1); }

  // Brings the ring to the elements of the next window; false when the input ends before them.
  bool take_elements(const Rows& scratch) {
    if (end_ < start_ && !is_input_over_) {
      const int64_t gap = start_ - end_;
      const int64_t passed = input_->skip(gap, rows_in(spec_, scratch, 0, 1, columns_));
      is_input_over_ = passed < gap;
      end_ += passed;
    }
    while (!is_input_over_ && end_ < start_ + window_.span()) {
      is_input_over_ = input_->pull(place_of(end_)) == 0;
      if (!is_input_over_) ++end_;
    }
    return end_ > start_;
  }

  const std::unique_ptr<Stream> input_;
  const ElementSpec& spec_;  // of the input
  const WindowSpec window_;
  Slots ring_;         // element i is in slot i modulo its size
  int64_t start_ = 0;  // the first element of the next window
  int64_t end_ = 0;    // elements taken from the input
  bool is_input_over_ = false;
  std::vector<Column> columns_;  // of the window that is being filled
};

ElementSpec windowed(const ElementSpec& input, const WindowSpec& window) {
  ElementSpec spec = input;
  for (Component& component : spec) {
    if (!component.is_fixed())
      throw Error(fmt::format("window: component '{}' {} differs in shape between elements; map it to one shape before",
                              component.name, to_string(component.shape)),
                  ErrorKind::Usage);
    component.shape.insert(0, window.drop_remainder ? window.size : -1);
    component.most.insert(0, window.size);
  }
  return input::checked(std::move(spec));
}

class WindowRecipe final : public input::Recipe {
 public:
  WindowRecipe(const input::RecipePtr& input, const WindowSpec& window)
      : Recipe(windowed(input->element(), window), {input}), window_(window) {}

  std::string text() const override {
    return fmt::format("window({}, shift {}, stride {}{})", window_.size, window_.shift, window_.stride,
                       window_.drop_remainder ? ", drop remainder" : "");
  }
  int64_t size() const override { return input().size() < 0 ? input().size() : window_.windows(input().size()); }
  bool is_random_access() const override { return input().is_random_access(); }
  input::Holding holding() const override {
    return {.bytes = is_random_access() ? 0 : Slots::bytes(input().element(), window_.span())};
  }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    if (is_random_access())
      return std::make_unique<IndexedWindows>(meter, std::move(inputs[0]), input().element(), window_);
    return std::make_unique<StreamedWindows>(meter, build.line, std::move(inputs[0]), input().element(), window_);
  }

 private:
  const WindowSpec window_;
};

class UnbatchStream final : public Stream {
 public:
  UnbatchStream(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& spec)
      : Stream(meter), input_(std::move(input)), spec_(spec), batch_(spec, 1, line) {}

  int64_t skip(int64_t count, const Rows&) override {
    int64_t skipped = 0;
    while (skipped < count) {
      const int64_t here = std::min(count - skipped, rows_ - row_);
      row_ += here;
      skipped += here;
      // Batches of a fixed size are skipped without being read.
      const int64_t size = spec_[0].shape[0];
      if (const int64_t batches = size > 0 ? (count - skipped) / size : 0; batches > 0)
        skipped += input_->skip(batches, batch_.rows()) * size;
      if (skipped < count && !take_batch()) break;
    }
    return skipped;
  }
  void rewind(uint64_t epoch) override {
    input_->rewind(epoch);
    row_ = rows_ = 0;
  }

 protected:
  int64_t fill(const Rows& rows) override {
    if (row_ == rows_ && !take_batch()) return 0;
    const int64_t now = std::min(rows.count(), rows_ - row_);
    const ElementView batch = batch_.rows().view(spec_, 0);
    for (size_t i = 0; i < spec_.size(); ++i) {
      Dims dims = batch.dims(i);
      const Bytes bytes = batch.bytes(i) / dims[0];
      dims.erase(0);
      const auto* const from = static_cast<const std::byte*>(batch.data(i)) + row_ * bytes;
      for (int64_t row = 0; row < now; ++row) {
        std::memcpy(rows.at(i, row), from + row * bytes, static_cast<size_t>(bytes));
        if (Dims* const shape = rows.shape(i, row); shape != nullptr) *shape = dims;
      }
    }
    row_ += now;
    return now;
  }

 private:
  bool take_batch() {
    do {
      row_ = rows_ = 0;
      if (input_->pull(batch_.rows()) == 0) return false;
      const ElementView batch = batch_.rows().view(spec_, 0);
      const int64_t rows = batch.dims(size_t{0})[0];
      for (size_t i = 1; i < spec_.size(); ++i)
        if (batch.dims(i)[0] != rows)
          throw Error(fmt::format("unbatch: component '{}' has {} rows but '{}' has {}", spec_[i].name,
                                  batch.dims(i)[0], spec_[0].name, rows),
                      ErrorKind::BadData);
      rows_ = rows;
    } while (rows_ == 0);
    return true;
  }

  const std::unique_ptr<Stream> input_;
  const ElementSpec& spec_;  // of the input
  Slots batch_;
  int64_t row_ = 0;
  int64_t rows_ = 0;
};

ElementSpec unbatched(const ElementSpec& input) {
  ElementSpec spec = input;
  for (Component& component : spec) {
    if (component.shape.empty())
      throw Error(fmt::format("unbatch: component '{}' is one number and has no rows", component.name),
                  ErrorKind::Usage);
    component.shape.erase(0);
    component.most.erase(0);
  }
  return input::checked(std::move(spec));
}

class UnbatchRecipe final : public input::Recipe {
 public:
  explicit UnbatchRecipe(const input::RecipePtr& input) : Recipe(unbatched(input->element()), {input}) {}

  std::string text() const override { return "unbatch()"; }
  int64_t size() const override {
    const int64_t all = input().size(), rows = input().element()[0].shape[0];
    return all <= 0 && all != Dataset::kUnknown ? all : all > 0 && rows >= 0 ? all * rows : Dataset::kUnknown;
  }
  input::Holding holding() const override { return {.bytes = Slots::bytes(input().element(), 1)}; }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<UnbatchStream>(meter, build.line, std::move(inputs[0]), input().element());
  }
};

}  // namespace

Dataset Dataset::window(int64_t count, const WindowOptions& options) const {
  const WindowSpec window{count, options.shift == 0 ? count : options.shift, options.stride, options.drop_remainder};
  if (count < 1 || window.shift < 1 || window.stride < 1)
    throw Error(
        fmt::format("window({}, shift {}, stride {}): give numbers of at least 1", count, window.shift, window.stride),
        ErrorKind::Usage);
  return input::make_dataset(std::make_shared<WindowRecipe>(recipe_, window));
}

Dataset Dataset::unbatch() const { return input::make_dataset(std::make_shared<UnbatchRecipe>(recipe_)); }

}  // namespace plimsoll
