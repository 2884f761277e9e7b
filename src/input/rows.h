// Rows of elements: where each component of a row lies, and slots, which are memory for rows under the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <plimsoll/dataset.h>
#include <plimsoll/memory_line.h>
#include "memory/arena.h"

namespace plimsoll::input {

// One component of several elements. A row holds its numbers without gaps, rows are `stride` bytes apart.
struct Column {
  std::byte* data = nullptr;
  Bytes stride = 0;
  Dims* shapes = nullptr;  // one for each row; null where the component is fixed
};

// Rows that a consumer gives to be filled; the consumer owns the columns, which are in the order of the components.
class Rows {
 public:
  Rows(const Column* columns, int64_t first, int64_t count) : columns_(columns), first_(first), count_(count) {}

  int64_t count() const { return count_; }
  std::byte* at(size_t component, int64_t row) const {
    return columns_[component].data + (first_ + row) * columns_[component].stride;
  }
  Dims* shape(size_t component, int64_t row) const {
    Dims* const shapes = columns_[component].shapes;
    return shapes == nullptr ? nullptr : shapes + first_ + row;
  }
  Bytes stride(size_t component) const { return columns_[component].stride; }

  Rows from(int64_t row) const { return {columns_, first_ + row, count_ - row}; }
  Rows front(int64_t count) const { return {columns_, first_, count}; }
  Rows row(int64_t row) const { return {columns_, first_ + row, 1}; }
  // The same rows without the first components.
  Rows components_from(size_t component) const { return {columns_ + component, first_, count_}; }

  ElementView view(const ElementSpec& spec, int64_t row) const { return {spec, columns_, first_ + row}; }
  ElementSlot slot(const ElementSpec& spec, int64_t row) const { return {spec, columns_, first_ + row}; }

 private:
  const Column* columns_;
  int64_t first_;
  int64_t count_;
};

// Bytes of the numbers in a row.
Bytes row_bytes(const Component& component, const Rows& rows, size_t index, int64_t row);
// `to` is elsewhere, or the same row.
void copy_row(const ElementSpec& spec, const Rows& from, int64_t from_row, const Rows& to, int64_t to_row);
// Sets each size that may differ to its largest, as an ElementSlot starts.
void set_largest(const ElementSpec& spec, const Rows& rows, int64_t row);

// After a stage with fixed components filled rows of a consumer whose components may differ in shape.
void give_shapes(const ElementSpec& filled, const Rows& rows);

// Memory for a fixed number of elements, held under Tag::Data.
class Slots {
 public:
  static Bytes bytes(const ElementSpec& spec, int64_t count);

  // Room for `most` elements, of which `count` have memory now.
  Slots(const ElementSpec& spec, int64_t count, MemoryLine& line, int64_t most = 0);

  int64_t count() const { return count_; }
  int64_t most() const { return most_; }
  Bytes bytes() const { return held_.bytes(); }
  Rows rows() const { return {columns_.data(), 0, count_}; }
  Rows rows(int64_t first, int64_t count) const { return {columns_.data(), first, count}; }
  const Column* columns() const { return columns_.data(); }

  // False when the line has no room for them; the slots stay where they are.
  bool grow(int64_t count);

 private:
  int64_t count_;
  int64_t most_;
  Bytes slot_bytes_;
  std::vector<std::vector<Dims>> shapes_;
  std::vector<Column> columns_;
  Reservation held_;
  memory::Arena arena_;
};

}  // namespace plimsoll::input
