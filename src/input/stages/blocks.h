// The part of a dataset that one of several ranks reads: a block of elements of each batch.
#pragma once

#include <cstdint>

#include <plimsoll/dataset.h>

namespace plimsoll::input {

// Each `period` elements are cut into `parts` parts, of which `count` are taken: `first`, `first + stride` and so on.
// Where elements can't be divided equally, the first parts have one more; a last, shorter period is divided in the same
// way. Elements keep their number in the whole dataset, so that random maps before this stage do the same to them.
struct BlockCut {
  int64_t period = 1, parts = 1;
  int64_t first = 0, count = 1;  // parts
  int64_t stride = 1;
};
Dataset take_blocks(const Dataset& dataset, const BlockCut& cut);

}  // namespace plimsoll::input
