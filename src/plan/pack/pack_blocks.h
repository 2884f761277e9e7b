// Boxes that join without gaps, taken as one block: the problem of blocks is smaller, and its packing gives one of the
// boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack/pack_boxes.h"

namespace plimsoll::plan {

// A block is a box, or two blocks with the same life on top of each other, or two of the same size of which one begins
// when the other ends:
//
//   +-----------+     +-------+-------+
//   |   upper   |     | first | then  |
//   +-----------+     +-------+-------+
//   |   lower   |
//   +-----------+
//
// Pieces of a rectangle that was cut from side to side, again and again, join to that rectangle.
class BoxBlocks {
 public:
  explicit BoxBlocks(const Boxes& boxes);

  // The blocks that are no part of another.
  Boxes outermost() const;

  // Offsets of the boxes, from those of the outermost blocks.
  Offsets take_apart(const Offsets& outermost) const;

 private:
  struct Join {
    int32_t first, second;
    bool is_stack;  // the second lies on the first; otherwise both have the offset of the block
  };
  Boxes blocks_;             // the boxes, then one for each join
  std::vector<Join> joins_;  // parts come before what they make up
  BoxOrder outermost_;
};

}  // namespace plimsoll::plan
