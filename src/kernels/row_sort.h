// Sorts row ids that may repeat, so that all entries of one table row are neighbours.
#pragma once

#include <cstdint>

#include <plimsoll/types.h>

namespace plimsoll::kernels {

// The row in the upper half, the position among the ids in the lower.
using RowEntry = uint64_t;
constexpr int64_t row_of(RowEntry entry) { return static_cast<int64_t>(entry >> 32); }
constexpr int64_t position_of(RowEntry entry) { return static_cast<int64_t>(entry & 0xffffffffU); }

constexpr Bytes row_sort_bytes(int64_t count) { return round_up(2 * count * static_cast<Bytes>(sizeof(RowEntry)), 64); }

struct SortedRows {
  const RowEntry* entries;
  int64_t count;  // ids outside of the table are left out
  // The first entry of a row >= `row`.
  int64_t find(int64_t row) const;
  int64_t end_of_row(int64_t entry) const {
    const int64_t row = row_of(entries[entry]);
    while (entry < count && row_of(entries[entry]) == row) ++entry;
    return entry;
  }
};

// Equal ids stay in order. `workspace` has row_sort_bytes(count).
SortedRows sort_rows(const int32_t* rows, int64_t count, int64_t table_rows, void* workspace);

// Sums columns [first, last) of the entries [begin, end) of one row: `values` itself when there is one, else in `sum`.
const float* sum_entries(const SortedRows& rows, int64_t begin, int64_t end, const float* values, int64_t width,
                         int64_t first, int64_t last, float* sum);

}  // namespace plimsoll::kernels
