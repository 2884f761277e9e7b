// Packing: offsets for items with known lifetimes, so that those alive together never overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::plan {

struct PackItem {
  int64_t lower = 0;  // lives in the half-open interval [lower, upper)
  int64_t upper = 0;
  Bytes size = 0;
};

// Effort is counted, never timed, so that the same problem always packs the same way.
struct PackBudget {
  int64_t scans = 200'000'000;  // boxes looked at while trying greedy orders
  int64_t nodes = 0;            // placements tried by the exact search
};

struct Packing {
  std::vector<Bytes> offsets;  // one for each item, all multiples of the alignment
  Bytes height = 0;
  Bytes lower_bound = 0;  // most bytes alive at one time; no packing is lower
};

// The lowest packing found, or the first that is no higher than `enough`. `enough` only decides when the search stops,
// not what it tries: a lower one never gives a higher packing.
Packing pack(std::span<const PackItem> items, Bytes alignment, Bytes enough, const PackBudget& budget);

// Spends all search effort on this one capacity; when that fails, the lowest packing found.
Packing pack_into(std::span<const PackItem> items, Bytes alignment, Bytes capacity, const PackBudget& budget);

}  // namespace plimsoll::plan
