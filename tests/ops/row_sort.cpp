#include "kernels/row_sort.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace plimsoll::ops {
namespace {

using namespace kernels;

TEST(RowSort, OrdersIdsOfAnyTableAndKeepsTheOrderOfRepeats) {
  for (const int64_t table_rows : {1, 2, 256, 257, 70000, std::numeric_limits<int32_t>::max()}) {
    std::vector<int32_t> rows(1000);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<int32_t>(mix_bits(static_cast<uint64_t>(table_rows), i / 2 * 2) %
                                     static_cast<uint64_t>(table_rows));
    rows[10] = -1;
    std::vector<RowEntry> expected;
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] >= 0) expected.push_back(static_cast<RowEntry>(rows[i]) << 32 | i);
    std::sort(expected.begin(), expected.end());
    std::vector<std::byte> workspace(static_cast<size_t>(row_sort_bytes(1000)));
    const SortedRows sorted = sort_rows(rows.data(), 1000, table_rows, workspace.data());
    EXPECT_EQ(std::vector<RowEntry>(sorted.entries, sorted.entries + sorted.count), expected) << table_rows;
  }
}

TEST(RowSort, LeavesOutIdsOutsideOfTheTable) {
  const std::vector<int32_t> rows{3, 0, 4, -7, 3};
  std::vector<std::byte> workspace(static_cast<size_t>(row_sort_bytes(5)));
  const SortedRows sorted = sort_rows(rows.data(), 5, 4, workspace.data());
  ASSERT_EQ(sorted.count, 3);
  EXPECT_EQ(row_of(sorted.entries[0]), 0);
  EXPECT_EQ(position_of(sorted.entries[1]), 0);
  EXPECT_EQ(position_of(sorted.entries[2]), 4);
  EXPECT_EQ(sorted.find(1), 1);
  EXPECT_EQ(sorted.end_of_row(1), 3);
}

}  // namespace
}  // namespace plimsoll::ops
