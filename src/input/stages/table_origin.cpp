#include "input/stages/table_origin.h"

#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "input/origin.h"
#include "input/stages/map.h"

namespace plimsoll::input {
namespace {

// Each element is its own number, so that a shuffle moves numbers and not rows.
class TableOrigin final : public Origin {
 public:
  TableOrigin(std::shared_ptr<const Table> table, std::string text)
      : table_(std::move(table)), text_(std::move(text)) {}

  const ElementSpec& element() const override { return element_; }
  int64_t count() const override { return table_->elements(); }
  std::string text() const override { return text_; }
  std::string identity() const override {
    return fmt::format("table({} elements, {:016x})", table_->elements(), table_->contents());
  }
  Bytes bytes() const override { return table_->held_bytes(); }
  const std::vector<std::string>* classes() const override { return &table_->classes(); }
  void read(int64_t first, const Rows& rows) const override {
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t number = first + row;
      std::memcpy(rows.at(0, row), &number, sizeof number);
    }
  }

 private:
  const std::shared_ptr<const Table> table_;
  const std::string text_;
  const ElementSpec element_{{"number", DType::I64, {}, {}}};
};

// What one thread reads with. The table is destroyed after its reader.
struct ThreadReader {
  std::shared_ptr<const Table> table;
  Reservation held;
  std::unique_ptr<TableReader> reader;
  std::vector<std::byte*> places;
};

RandomMapFunction make_reading(const std::shared_ptr<const Table>& table, MemoryLine& line) {
  auto state = std::make_shared<ThreadReader>();
  state->table = table;
  state->held = line.reserve(Tag::Data, table->reader_bytes());
  state->reader = table->open_reader();
  state->places.resize(table->fields().size());
  return [state](const ElementView& from, const ElementSlot& to, uint64_t) {
    for (size_t i = 0; i < state->places.size(); ++i) state->places[i] = static_cast<std::byte*>(to.data(i));
    state->reader->read(from.as<int64_t>(0)[0], state->places);
  };
}

}  // namespace

Dataset from_table(const std::shared_ptr<const Table>& table, const std::string& text, int threads) {
  ElementSpec element;
  for (const TableField& field : table->fields()) {
    const Dims shape = Dims::from(field.shape);
    element.push_back({field.name, field.dtype, shape, shape});
  }
  const RecipePtr numbers = from_origin(std::make_shared<const TableOrigin>(table, text));
  return make_dataset(make_map(numbers, {.element = element,
                                         .make = [table](MemoryLine& line) { return make_reading(table, line); },
                                         .threads = threads,
                                         .thread_bytes = table->reader_bytes(),
                                         .text = fmt::format("read(to {})", to_string(element))}));
}

}  // namespace plimsoll::input
