#include "input/rows.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::input {
namespace {

// Small elements are aligned to less, so that a window of many single numbers stays small.
Bytes alignment_of(const ElementSpec& spec) {
  const bool has_wide = std::ranges::any_of(spec, [](const Component& c) { return c.bytes() >= kAlignment; });
  return has_wide ? kAlignment : Bytes(sizeof(int64_t));
}

Bytes bytes_of_slot(const ElementSpec& spec) {
  Bytes bytes = 0;
  for (const Component& component : spec) bytes += round_up(component.bytes(), alignment_of(spec));
  return std::max(bytes, alignment_of(spec));
}

Bytes bytes_of_shapes(const ElementSpec& spec, int64_t count) {
  return count * Bytes(sizeof(Dims)) * std::ranges::count_if(spec, [](const Component& c) { return !c.is_fixed(); });
}

Bytes pages(Bytes bytes) { return round_up(bytes, memory::Arena::kPage); }

}  // namespace

Bytes row_bytes(const Component& component, const Rows& rows, size_t index, int64_t row) {
  const Dims* const shape = rows.shape(index, row);
  return shape == nullptr ? component.bytes() : element_count(*shape) * size_of(component.dtype);
}

void copy_row(const ElementSpec& spec, const Rows& from, int64_t from_row, const Rows& to, int64_t to_row) {
  for (size_t i = 0; i < spec.size(); ++i) {
    std::memmove(to.at(i, to_row), from.at(i, from_row), static_cast<size_t>(row_bytes(spec[i], from, i, from_row)));
    if (Dims* const shape = to.shape(i, to_row); shape != nullptr) *shape = *from.shape(i, from_row);
  }
}

void set_largest(const ElementSpec& spec, const Rows& rows, int64_t row) {
  for (size_t i = 0; i < spec.size(); ++i)
    if (Dims* const shape = rows.shape(i, row); shape != nullptr) *shape = spec[i].most;
}

void give_shapes(const ElementSpec& filled, const Rows& rows) {
  for (size_t i = 0; i < filled.size(); ++i)
    for (int64_t row = 0; row < rows.count() && filled[i].is_fixed(); ++row)
      if (Dims* const shape = rows.shape(i, row); shape != nullptr) *shape = filled[i].shape;
}

Bytes Slots::bytes(const ElementSpec& spec, int64_t count) {
  return pages(count * bytes_of_slot(spec)) + bytes_of_shapes(spec, count);
}

Slots::Slots(const ElementSpec& spec, int64_t count, MemoryLine& line, int64_t most)
    : count_(count),
      most_(std::max(count, most)),
      slot_bytes_(bytes_of_slot(spec)),
      shapes_(spec.size()),
      held_(line.reserve(Tag::Data, pages(count * slot_bytes_) + bytes_of_shapes(spec, most_))),
      arena_(std::max<Bytes>(most_, 1) * slot_bytes_) {
  arena_.commit(count * slot_bytes_);
  held_.set_resident(arena_.committed());
  std::byte* place = arena_.data();
  for (size_t i = 0; i < spec.size(); ++i) {
    if (!spec[i].is_fixed()) shapes_[i].resize(static_cast<size_t>(most_));
    columns_.push_back({place, slot_bytes_, spec[i].is_fixed() ? nullptr : shapes_[i].data()});
    place += round_up(spec[i].bytes(), alignment_of(spec));
  }
}

bool Slots::grow(int64_t count) {
  if (count > most_) return false;
  try {
    held_.resize(held_.bytes() + pages(count * slot_bytes_) - pages(count_ * slot_bytes_));
  } catch (const DoesNotFit&) {
    return false;
  }
  arena_.commit(count * slot_bytes_);
  held_.set_resident(arena_.committed());
  count_ = count;
  return true;
}

}  // namespace plimsoll::input
