#include "input/stages/held_rows.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::input {
namespace {

constexpr Bytes kCacheLine = 64;
// Bytes to prefetch into the caches ahead of the copy, to hide the latency of memory.
constexpr Bytes kBytesAhead = 4 * KiB;

Bytes column_bytes(const Component& component, int64_t count) {
  return round_up(component.bytes() * count, kAlignment);
}

}  // namespace

Bytes HeldRows::bytes(const Origin& origin) {
  Bytes bytes = 0;
  for (const Component& component : origin.element()) bytes += column_bytes(component, origin.count());
  return round_up(bytes, memory::Arena::kPage);
}

HeldRows::HeldRows(const Origin& origin, MemoryLine& line)
    : held_(line.reserve(Tag::Data, bytes(origin))), arena_(held_.bytes()) {
  arena_.commit(held_.bytes());
  held_.set_resident(arena_.committed());
  std::byte* place = arena_.data();
  for (const Component& component : origin.element()) {
    columns_.push_back({place, component.bytes(), nullptr});
    place += column_bytes(component, origin.count());
  }
  origin.read(0, Rows(columns_.data(), 0, origin.count()));
}

void HeldRows::read(int64_t first, const Rows& rows) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const auto bytes = static_cast<size_t>(columns_[i].stride);
    const std::byte* const from = columns_[i].data + first * columns_[i].stride;
    if (rows.stride(i) == columns_[i].stride) {
      std::memcpy(rows.at(i, 0), from, bytes * static_cast<size_t>(rows.count()));
      continue;
    }
    for (int64_t row = 0; row < rows.count(); ++row)
      std::memcpy(rows.at(i, row), from + row * columns_[i].stride, bytes);
  }
}

void HeldRows::gather(std::span<const int64_t> numbers, const Rows& rows) const {
  const auto count = static_cast<int64_t>(numbers.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const auto bytes = static_cast<size_t>(column.stride);
    const int64_t ahead = std::clamp<int64_t>(kBytesAhead / std::max<Bytes>(column.stride, 1), 1, 16);
    const auto place = [&](int64_t row) { return column.data + numbers[static_cast<size_t>(row)] * column.stride; };
    const auto fetch = [&](int64_t row) {
      for (Bytes at = 0; at < std::min(column.stride, kBytesAhead); at += kCacheLine)
        __builtin_prefetch(place(row) + at);
    };
    for (int64_t row = 0; row < std::min(ahead, count); ++row) fetch(row);
    for (int64_t row = 0; row < count; ++row) {
      if (row + ahead < count) fetch(row + ahead);
      std::memcpy(rows.at(i, row), place(row), bytes);
    }
  }
}

}  // namespace plimsoll::input
