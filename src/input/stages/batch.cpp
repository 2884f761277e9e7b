// batch and padded_batch: the input writes its elements straight into the rows of the batch.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/origin.h"
#include "input/stages/row_padding.h"

namespace plimsoll {
namespace {

using input::Column;
using input::Rows;
using input::Stream;

// Shapes of the rows of one batch, for the components whose elements differ.
class RowShapes {
 public:
  static Bytes bytes(const ElementSpec& spec, int64_t count) {
    return count * Bytes(sizeof(Dims)) * std::ranges::count_if(spec, [](const Component& c) { return !c.is_fixed(); });
  }
  RowShapes(const ElementSpec& spec, int64_t count, MemoryLine& line)
      : held_(line.reserve(Tag::Data, bytes(spec, count))), shapes_(spec.size()) {
    for (size_t i = 0; i < spec.size(); ++i)
      if (!spec[i].is_fixed()) shapes_[i] = std::make_unique<Dims[]>(static_cast<size_t>(count));
  }
  Dims* of(size_t component) const { return shapes_[component].get(); }

 private:
  const Reservation held_;
  std::vector<std::unique_ptr<Dims[]>> shapes_;  // null where all are the same
};

struct BatchSpec {
  int64_t size = 1;
  bool drop_remainder = false;
  input::RowPadding padding = {};

  // Whether elements need no padding or moving after they are read into the batch.
  bool is_plain(const ElementSpec& spec) const {
    return padding.is_empty() && std::ranges::all_of(spec, [](const Component& c) { return c.is_fixed(); });
  }
};

class BatchStream final : public Stream, public input::Indexed {
 public:
  BatchStream(input::Meter& meter, MemoryLine& line, std::unique_ptr<Stream> input, const ElementSpec& spec,
              const BatchSpec& batch)
      : Stream(meter),
        input_(std::move(input)),
        from_(input_->indexed()),
        spec_(spec),
        batch_(batch),
        size_(batch.size),
        drop_remainder_(batch.drop_remainder),
        shapes_(spec, size_, line),
        columns_(spec.size()) {}

  int64_t skip(int64_t count, const Rows& scratch) override {
    const int64_t passed = input_->skip(count * size_, rows_in(scratch, 0, columns_));
    return drop_remainder_ ? passed / size_ : (passed + size_ - 1) / size_;
  }
  void rewind(uint64_t epoch) override { input_->rewind(epoch); }

  const Indexed* indexed() const override { return from_ != nullptr && batch_.is_plain(spec_) ? this : nullptr; }
  int64_t count() const override {
    return drop_remainder_ ? from_->count() / size_ : (from_->count() + size_ - 1) / size_;
  }
  void read(int64_t first, const Rows& rows) const override {
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t start = (first + row) * size_;
      const int64_t filled = std::min(size_, from_->count() - start);
      // Not columns_: several threads may be here at once.
      std::vector<Column> columns(spec_.size());
      {
        const input::Stopwatch watch(input_->meter().busy_ns);
        from_->read(start, rows_in(rows, row, columns).front(filled));
      }
      input_->meter().elements.fetch_add(filled, std::memory_order_relaxed);
      set_shapes(rows, row, filled);
    }
  }

 protected:
  int64_t fill(const Rows& rows) override {
    const Rows inner = rows_in(rows, 0, columns_);
    const int64_t filled = input_->pull_all(inner);
    if (filled == 0 || (drop_remainder_ && filled < size_)) return 0;
    for (size_t i = 0; i < spec_.size(); ++i) {
      if (batch_.padding.is_padded(i))
        batch_.padding.pad(spec_[i], i, inner.front(filled), shapes_.of(i));
      else if (!spec_[i].is_fixed())
        close_up(i, inner, filled);
    }
    set_shapes(rows, 0, filled);
    return 1;
  }

 private:
  Rows rows_in(const Rows& rows, int64_t row, std::vector<Column>& columns) const {
    for (size_t i = 0; i < spec_.size(); ++i)
      columns[i] = {rows.at(i, row), batch_.padding.row_bytes(spec_[i], i), shapes_.of(i)};
    return {columns.data(), 0, size_};
  }

  // Moves elements together: each was read into room for the largest.
  void close_up(size_t component, const Rows& rows, int64_t filled) const {
    const Dims& shape = *rows.shape(component, 0);
    const Bytes bytes = row_bytes(spec_[component], rows, component, 0);
    for (int64_t row = 1; row < filled; ++row) {
      if (*rows.shape(component, row) != shape)
        throw Error(fmt::format("batch({}): component '{}' is {} in one element and {} in another; use padded_batch, "
                                "or map them to one shape",
                                size_, spec_[component].name, to_string(shape), to_string(*rows.shape(component, row))),
                    ErrorKind::BadData);
      std::memmove(rows.at(component, 0) + row * bytes, rows.at(component, row), static_cast<size_t>(bytes));
    }
  }

  void set_shapes(const Rows& rows, int64_t row, int64_t filled) const {
    for (size_t i = 0; i < spec_.size(); ++i) {
      Dims* const shape = rows.shape(i, row);
      if (shape == nullptr) continue;
      *shape = spec_[i].is_fixed() ? batch_.padding.fixed_shape(spec_[i], i) : *shapes_.of(i);
      shape->insert(0, filled);
    }
  }

  const std::unique_ptr<Stream> input_;
  const input::Indexed* const from_;
  const ElementSpec& spec_;  // of the input
  const BatchSpec& batch_;
  const int64_t size_;
  const bool drop_remainder_;
  const RowShapes shapes_;
  std::vector<Column> columns_;  // of the batch that is being filled
};

ElementSpec batched(const input::Recipe& input, const BatchSpec& batch) {
  ElementSpec spec = batch.padding.padded(input.element());
  const bool is_full = batch.drop_remainder || input.size() == Dataset::kInfinite ||
                       (input.size() >= 0 && input.size() % batch.size == 0);
  for (Component& component : spec) {
    component.shape.insert(0, is_full ? batch.size : -1);
    component.most.insert(0, batch.size);
  }
  return input::checked(std::move(spec));
}

class BatchRecipe final : public input::Recipe {
 public:
  BatchRecipe(const input::RecipePtr& input, BatchSpec batch)
      : Recipe(batched(*input, batch), {input}), batch_(std::move(batch)) {}

  std::string text() const override {
    return fmt::format("{}({}{}{})", batch_.padding.is_empty() ? "batch" : "padded_batch", batch_.size,
                       batch_.drop_remainder ? ", drop remainder" : "", batch_.padding.text());
  }
  int64_t size() const override {
    const int64_t all = input().size();
    if (all < 0) return all;
    return batch_.drop_remainder ? all / batch_.size : (all + batch_.size - 1) / batch_.size;
  }
  bool is_random_access() const override { return input().is_random_access() && batch_.is_plain(input().element()); }
  input::Holding holding() const override { return {.bytes = RowShapes::bytes(input().element(), batch_.size)}; }

 protected:
  std::unique_ptr<Stream> make(input::Build& build, input::Meter& meter,
                               std::vector<std::unique_ptr<Stream>> inputs) const override {
    return std::make_unique<BatchStream>(meter, build.line, std::move(inputs[0]), input().element(), batch_);
  }

 private:
  const BatchSpec batch_;
};

void check(int64_t count) {
  if (count < 1) throw Error(fmt::format("a batch of {} makes no sense; give at least 1", count), ErrorKind::Usage);
}

}  // namespace

Dataset Dataset::batch(int64_t count, bool drop_remainder) const {
  check(count);
  return input::make_dataset(std::make_shared<BatchRecipe>(recipe_, BatchSpec{count, drop_remainder}));
}

Dataset Dataset::padded_batch(int64_t count, const PaddedBatchOptions& options) const {
  check(count);
  return input::make_dataset(std::make_shared<BatchRecipe>(
      recipe_, BatchSpec{count, options.drop_remainder, input::RowPadding(element(), options)}));
}

}  // namespace plimsoll
