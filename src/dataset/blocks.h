// The part of a dataset that one of several ranks reads: a block of elements of each batch.
#pragma once

#include <cstdint>

#include <plimsoll/dataset.h>

namespace plimsoll::dataset {

// Of each `period` elements those from `first` on, `count` of them. Elements keep their place in the whole: what random
// maps before it do to them stays the same.
Dataset take_blocks(const Dataset& dataset, int64_t period, int64_t first, int64_t count);

}  // namespace plimsoll::dataset
