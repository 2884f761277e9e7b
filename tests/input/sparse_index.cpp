#include "input/files/sparse_index.h"

#include <gtest/gtest.h>

namespace plimsoll::input {
namespace {

TEST(SparseIndex, KeepsEveryKthElementInBoundedMemory) {
  for (const int64_t capacity : {2, 3, 8, 100}) {
    SparseIndex index(capacity * Bytes(sizeof(Bytes)));
    for (int64_t count = 1; count <= 1000; ++count) {
      index.add((count - 1) * 7);
      for (const int64_t element : {int64_t(0), count / 2, count - 1}) {
        const SparseIndex::Entry entry = index.before(element);
        EXPECT_EQ(entry.offset, entry.element * 7);
        EXPECT_LE(entry.element, element);
        EXPECT_LT(element - entry.element, index.stride());
      }
    }
    EXPECT_EQ(index.count(), 1000);
    EXPECT_LE(index.stride(), 4 * 1000 / capacity);
  }
}

}  // namespace
}  // namespace plimsoll::input
