#include "eager/value.h"

#include <algorithm>

namespace plimsoll::eager {

RunRecord::~RunRecord() {
  for (const LeafUse& leaf : leaves)
    if (leaf.value != nullptr && --leaf.value->records == 0 && leaf.value->is_dead) delete leaf.value;
}

bool RunRecord::is_valid() const {
  return std::all_of(leaves.begin(), leaves.end(), [](const LeafUse& leaf) {
    return leaf.value == nullptr || (!leaf.value->is_dead && leaf.value->version == leaf.version);
  });
}

}  // namespace plimsoll::eager
