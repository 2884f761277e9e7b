#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "plan/pack/pack_boxes.h"

namespace plimsoll::plan {

// Local search over the order of placing: boxes near the top are placed earlier in the next try. Placing boxes again in
// the order of their offsets never raises the height, so each try starts from the best so far.
Offsets improve_order(const Boxes& boxes, Offsets best, Bytes enough, int64_t scans) {
  const auto count = static_cast<int64_t>(boxes.size());
  const int64_t cost = count * count / 2 + count;
  Bytes height = height_of(boxes, best);
  BoxOrder order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> position(boxes.size());
  RandomSequence random(1);
  for (int64_t round = 0; scans >= cost && height > enough; ++round, scans -= cost) {
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return std::pair(best[a], a) < std::pair(best[b], b); });
    for (int64_t i = 0; i < count; ++i) position[order[i]] = 2 * i;
    const Bytes line = height - (height - enough) / (1 + round % 4);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t box = order[i];
      if (best[box] + boxes[box].size >= line) position[box] -= 1 + 2 * random.below(i + 1);
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return position[a] < position[b]; });
    Offsets tried = place_in_holes(boxes, order, Fit::Lowest, std::numeric_limits<int32_t>::max());
    if (const Bytes found = height_of(boxes, tried); found <= height) {
      best = std::move(tried);
      height = found;
    }
  }
  return best;
}

}  // namespace plimsoll::plan
