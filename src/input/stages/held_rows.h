// All elements of a source in memory, each component without gaps, under the line.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <plimsoll/memory_line.h>
#include "input/origin.h"
#include "memory/arena.h"

namespace plimsoll::input {

class HeldRows {
 public:
  static Bytes bytes(const Origin& origin);

  // Reads them in order. Throws DoesNotFit, or what the origin throws.
  HeldRows(const Origin& origin, MemoryLine& line);

  void read(int64_t first, const Rows& rows) const;
  void gather(std::span<const int64_t> numbers, const Rows& rows) const;

 private:
  std::vector<Column> columns_;
  Reservation held_;
  memory::Arena arena_;
};

}  // namespace plimsoll::input
