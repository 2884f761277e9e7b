// The part of a dataset that one of several ranks reads: a block of elements of each batch.
#pragma once

#include <cstdint>

#include <plimsoll/dataset.h>

namespace plimsoll::dataset {

// Of each `period` elements, cut into parts, those of `count` parts from part `first` on, each `stride` after the
// other. Where elements can't be divided equally, the first parts have one more: so the last elements, when they are
// fewer than a period. Elements keep their place in the whole: what random maps before it do to them stays the same.
struct BlockCut {
  int64_t period = 1, parts = 1;
  int64_t first = 0, count = 1;  // parts
  int64_t stride = 1;
};
Dataset take_blocks(const Dataset& dataset, const BlockCut& cut);

}  // namespace plimsoll::dataset
