#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "plan/pack/pack.h"
#include "plan/pack/pack_large.h"

namespace plimsoll::plan {
namespace {

// The most contended boxes, and the others in the order in which they are to be placed.
struct Contended {
  BoxOrder first, others;
};

// The contention of each box: the most bytes that are alive at any time of its life.
class Contention {
 public:
  explicit Contention(const Boxes& boxes) : boxes_(boxes), order_(boxes.size()) {
    const std::vector<Bytes> loads = loads_of(boxes);
    const auto times = static_cast<int32_t>(loads.size());
    Skyline skyline(times);
    for (int32_t time = 0; time < times; ++time) skyline.raise(time, time + 1, loads[time]);
    for (const Box& box : boxes) peaks_.push_back(skyline.top(box.lower, box.upper));
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return peaks_[a] > peaks_[b]; });
  }

  // Those first that live at a time with more than some load; the load is chosen so that they are at most `most`.
  Contended split(size_t most) const {
    size_t count = std::min(most, order_.size());
    while (count > 0 && count < order_.size() && peaks_[order_[count]] == peaks_[order_[count - 1]]) --count;
    const auto cut = order_.begin() + static_cast<int64_t>(count);
    Contended split{{order_.begin(), cut}, {cut, order_.end()}};
    // The others by steps of their contention, the largest first within a step.
    constexpr double kSteps = 32;
    const auto key = [&](int32_t i) {
      const double peak = static_cast<double>(peaks_[i]) / static_cast<double>(peaks_[order_[0]]);
      const double area = static_cast<double>(boxes_[i].size) * (boxes_[i].upper - boxes_[i].lower);
      return std::tuple(-static_cast<int>(kSteps * peak), -area, i);
    };
    std::sort(split.others.begin(), split.others.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
    return split;
  }

 private:
  const Boxes& boxes_;
  std::vector<Bytes> peaks_;  // by box
  BoxOrder order_;            // by falling peak
};

// Offsets for `some` boxes as if there were no others, which get -1; empty when no packing below the capacity is found.
Offsets place_alone(const Boxes& boxes, const BoxOrder& some, Bytes capacity, const PackBudget& budget) {
  std::vector<PackItem> items;
  for (const int32_t i : some) items.push_back({boxes[i].lower, boxes[i].upper, boxes[i].size});
  const Packing packing = pack_into(items, 1, capacity, budget);
  if (packing.height > capacity) return {};
  Offsets offsets(boxes.size(), -1);
  for (size_t k = 0; k < some.size(); ++k) offsets[some[k]] = packing.offsets[k];
  return offsets;
}

}  // namespace

Offsets pack_contended_first(const Boxes& boxes, Offsets best, Bytes enough, const LargeBudget& budget) {
  constexpr size_t kCounts[] = {500, 1000, 2000};  // more are harder to search, but leave the others more room
  constexpr Bytes kThousandths[] = {0, 3, 8};      // above the bound
  constexpr int64_t kTries = 9;
  const PackBudget share{.scans = budget.scans / kTries, .nodes = budget.nodes / kTries};
  const Bytes bound = load_of(boxes);
  const Contention contention(boxes);
  Bytes height = height_of(boxes, best);
  int64_t looks = budget.repair_looks;
  for (const Bytes thousandths : kThousandths)
    for (const size_t count : kCounts) {
      const Bytes capacity = bound + bound / 1000 * thousandths;
      if (height <= std::max(enough, capacity) || looks <= 0) return best;
      const Contended contended = contention.split(count);
      if (contended.first.empty()) continue;
      Offsets some = place_alone(boxes, contended.first, capacity, share);
      if (some.empty()) continue;
      Offsets all = complete(boxes, std::move(some), contended.others, capacity, looks);
      if (all.empty()) continue;
      best = std::move(all);
      height = height_of(boxes, best);
    }
  return best;
}

}  // namespace plimsoll::plan
