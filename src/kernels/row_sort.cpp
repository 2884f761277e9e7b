#include "kernels/row_sort.h"

#include <algorithm>
#include <array>

namespace plimsoll::kernels {

int64_t SortedRows::find(int64_t row) const {
  return std::lower_bound(entries, entries + count, static_cast<RowEntry>(row) << 32) - entries;
}

SortedRows sort_rows(const int32_t* rows, int64_t count, int64_t table_rows, void* workspace) {
  auto* from = static_cast<RowEntry*>(workspace);
  RowEntry* to = from + count;
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i)
    if (rows[i] >= 0 && rows[i] < table_rows)
      from[kept++] = static_cast<RowEntry>(rows[i]) << 32 | static_cast<RowEntry>(i);
  // Radix sort, eight bits at a time from the lowest: stable, and no allocation.
  for (int shift = 32; shift < 64 && (table_rows - 1) >> (shift - 32) != 0; shift += 8) {
    std::array<int64_t, 257> start{};
    for (int64_t i = 0; i < kept; ++i) ++start[(from[i] >> shift & 0xff) + 1];
    for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
    for (int64_t i = 0; i < kept; ++i) to[start[from[i] >> shift & 0xff]++] = from[i];
    std::swap(from, to);
  }
  return {from, kept};
}

const float* sum_entries(const SortedRows& rows, int64_t begin, int64_t end, const float* values, int64_t width,
                         int64_t first, int64_t last, float* sum) {
  const float* row = values + position_of(rows.entries[begin]) * width;
  if (end - begin == 1) return row + first;
  std::copy(row + first, row + last, sum);
  for (int64_t e = begin + 1; e < end; ++e) {
    row = values + position_of(rows.entries[e]) * width + first;
    for (int64_t j = 0; j < last - first; ++j) sum[j] += row[j];
  }
  return sum;
}

}  // namespace plimsoll::kernels
