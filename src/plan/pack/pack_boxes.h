// The packer's own view of a problem, and the ways to place boxes one after another.
#pragma once

#include <cstdint>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::plan {

// Times are ranks 0..n of the moments where anything begins or ends; sizes count units of the alignment.
struct Box {
  int32_t lower = 0;
  int32_t upper = 0;
  Bytes size = 0;
};

using Boxes = std::vector<Box>;
using Offsets = std::vector<Bytes>;
using BoxOrder = std::vector<int32_t>;

Bytes height_of(const Boxes& boxes, const Offsets& offsets);

// Units alive at each time, and the most of them at one.
std::vector<Bytes> loads_of(const Boxes& boxes);
Bytes load_of(const Boxes& boxes);

// The highest top over any stretch of time, raised box by box: both in logarithmic time.
class Skyline {
 public:
  explicit Skyline(int32_t times);
  Bytes top(int32_t lower, int32_t upper) const { return top(1, 0, width_, lower, upper); }
  void raise(int32_t lower, int32_t upper, Bytes top) { raise(1, 0, width_, lower, upper, top); }

 private:
  struct Node {
    Bytes whole = 0;    // reached over all of the node's time
    Bytes highest = 0;  // reached somewhere in it
  };
  Bytes top(size_t node, int32_t begin, int32_t end, int32_t lower, int32_t upper) const;
  void raise(size_t node, int32_t begin, int32_t end, int32_t lower, int32_t upper, Bytes top);
  int32_t width_ = 1;
  std::vector<Node> nodes_;
};

// Each box on top of all that is placed at its time; holes stay empty. n log n.
Offsets place_on_skyline(const Boxes& boxes, const BoxOrder& order);

// As an allocator at run time would: walks through time, best fit in a free list. n log n.
Offsets place_in_time(const Boxes& boxes, bool backwards);

// Each box in a hole between placed ones: the lowest that fits, or the tightest. Boxes longer than `long_time` go on a
// skyline first, under all others, so that the rest only look at their neighbours in time.
enum class Fit { Lowest, Tightest };
Offsets place_in_holes(const Boxes& boxes, const BoxOrder& order, Fit fit, int32_t long_time);

// Local search over orders, from a packing that is already good. Each try costs boxes^2 / 2 scans.
Offsets improve_order(const Boxes& boxes, Offsets best, Bytes enough, int64_t scans);

// A portfolio of the above; stops at `enough`. `scans` is what is left of the budget.
Offsets pack_greedy(const Boxes& boxes, Bytes enough, int64_t& scans);

}  // namespace plimsoll::plan
