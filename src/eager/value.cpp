#include "eager/value.h"

#include <algorithm>

namespace plimsoll::eager {

RunRecord::~RunRecord() {
  for (const LeafUse& leaf : leaves) {
    if (--leaf.value->records > 0) continue;
    if (leaf.value->is_dead)
      delete leaf.value;
    else if (leaf.value->handles == 0)
      leaf.value->dispose(leaf.value);  // only this record kept it
  }
}

bool RunRecord::is_valid() const {
  return std::all_of(leaves.begin(), leaves.end(),
                     [](const LeafUse& leaf) { return !leaf.value->is_dead && leaf.value->version == leaf.version; });
}

}  // namespace plimsoll::eager
