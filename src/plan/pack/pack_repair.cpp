#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/pack/pack_large.h"
#include "plan/pack/pack_tree.h"

namespace plimsoll::plan {
namespace {

// What a box weighs when it may be pushed out. No measure is best everywhere. ContendedArea counts a time by how much
// is alive then.
enum class Measure { Area, SizeAndRootOfTime, ContendedArea };

// Prefix sums of what each time counts: 1, or for ContendedArea the alive share of the bound to the power of 16.
std::vector<double> sum_times(const Boxes& boxes, Measure measure) {
  const std::vector<Bytes> loads = loads_of(boxes);
  const auto bound = static_cast<double>(*std::max_element(loads.begin(), loads.end()));
  std::vector<double> sums{0};
  for (const Bytes load : loads) {
    double share = measure == Measure::ContendedArea ? static_cast<double>(load) / bound : 1;
    for (int k = 0; k < 4; ++k) share *= share;
    sums.push_back(sums.back() + share);
  }
  return sums;
}

// Ejection chains. Boxes with offsets below 0 are not placed at first. A box that finds no hole below the capacity
// pushes out those whose weights sum to the least. Each failure to find a hole adds to the weight of a box, so that no
// set of boxes pushes each other out for ever.
class Repair {
 public:
  Repair(const Boxes& boxes, Offsets offsets, Measure measure)
      : boxes_(boxes), offsets_(std::move(offsets)), tree_(boxes) {
    is_placed_.assign(boxes_.size(), 0);
    for (size_t i = 0; i < boxes_.size(); ++i)
      if (offsets_[i] >= 0) place(static_cast<int32_t>(i), offsets_[i]);
    weigh_by(measure);
  }

  // Goes back to this packing of all boxes.
  void return_to(const Offsets& offsets) {
    waiting_.clear();
    for (size_t i = 0; i < boxes_.size(); ++i) {
      if (is_placed_[i] && offsets_[i] == offsets[i]) continue;
      if (is_placed_[i]) tree_.remove(static_cast<int32_t>(i), offsets_[i]);
      is_placed_[i] = 0;
    }
    for (size_t i = 0; i < boxes_.size(); ++i)
      if (!is_placed_[i]) place(static_cast<int32_t>(i), offsets[i]);
  }

  // Sets the weights by a measure, without what failures added.
  void weigh_by(Measure measure) {
    constexpr double kFinest = 1 << 20;  // integers, so that sums are exact
    const std::vector<double> sums = sum_times(boxes_, measure);
    std::vector<double> costs;
    for (const Box& box : boxes_) {
      const double time = sums[box.upper] - sums[box.lower];
      costs.push_back(static_cast<double>(box.size) * (measure == Measure::SizeAndRootOfTime ? std::sqrt(time) : time));
    }
    const double most = *std::max_element(costs.begin(), costs.end());
    base_weight_.clear();
    for (const double cost : costs) base_weight_.push_back(1 + static_cast<int64_t>(kFinest * cost / most));
    weight_ = base_weight_;
  }

  int64_t looks() const { return tree_.looks(); }
  const Offsets& offsets() const { return offsets_; }

  // Moves boxes until all lie below the capacity. False: the looks ended before.
  bool lower_to(Bytes capacity, int64_t most_looks) {
    take_out_above(capacity);
    std::sort(waiting_.begin(), waiting_.end(),
              [&](int32_t a, int32_t b) { return std::pair(base_weight_[a], a) < std::pair(base_weight_[b], b); });
    while (!waiting_.empty() && tree_.looks() < most_looks) {
      const int32_t box = waiting_.back();
      waiting_.pop_back();
      put_back(box, capacity);
    }
    return waiting_.empty();
  }

  // Places these as well, in their order. Gives up when the looks end, or when a sixteenth of them brings no progress.
  bool place_others(const BoxOrder& others, Bytes capacity, int64_t most_looks) {
    constexpr int64_t kPatience = 16;
    waiting_.assign(others.rbegin(), others.rend());
    take_out_above(capacity);
    size_t fewest = waiting_.size();
    int64_t gained_at = tree_.looks();
    while (!waiting_.empty()) {
      if (tree_.looks() >= most_looks || tree_.looks() - gained_at > most_looks / kPatience) return false;
      const int32_t box = waiting_.back();
      waiting_.pop_back();
      put_back(box, capacity);
      if (waiting_.size() >= fewest) continue;
      fewest = waiting_.size();
      gained_at = tree_.looks();
    }
    return true;
  }

 private:
  void place(int32_t box, Bytes offset) {
    offsets_[box] = offset;
    is_placed_[box] = 1;
    tree_.add(box, offset);
  }

  void take_out(int32_t box) {
    tree_.remove(box, offsets_[box]);
    is_placed_[box] = 0;
    waiting_.push_back(box);
  }

  void take_out_above(Bytes capacity) {
    for (size_t i = 0; i < boxes_.size(); ++i)
      if (is_placed_[i] && offsets_[i] + boxes_[i].size > capacity) take_out(static_cast<int32_t>(i));
  }

  // Sorts those pushed out by rising weight: the last, which is the heaviest, is placed first.
  void sort_waiting(size_t first) {
    std::sort(waiting_.begin() + static_cast<int64_t>(first), waiting_.end(),
              [&](int32_t a, int32_t b) { return std::pair(weight_[a], a) < std::pair(weight_[b], b); });
  }

  void put_back(int32_t box, Bytes capacity) {
    tree_.gather(box);
    const auto& others = tree_.by_offset();
    Bytes offset = find_hole(others, boxes_[box].size, capacity);
    if (offset < 0) {
      weight_[box] += base_weight_[box];
      offset = find_lightest(others, tree_.by_end(), boxes_[box].size, capacity);
      const size_t first = waiting_.size();
      for (const PlacedTree::Placed& other : others)
        if (other.offset < offset + boxes_[box].size && offset < other.end) take_out(other.box);
      sort_waiting(first);
    }
    place(box, offset);
  }

  // The tightest hole, or -1.
  static Bytes find_hole(const std::vector<PlacedTree::Placed>& others, Bytes size, Bytes capacity) {
    Bytes floor = 0, best = -1, best_slack = std::numeric_limits<Bytes>::max();
    const auto consider = [&](Bytes ceiling) {
      const Bytes slack = ceiling - floor - size;
      if (slack < 0 || slack >= best_slack) return;
      best = floor;
      best_slack = slack;
    };
    for (const PlacedTree::Placed& other : others) {
      consider(other.offset);
      floor = std::max(floor, other.end);
    }
    consider(capacity);
    return best;
  }

  // The offset at which the boxes pushed out weigh least: on top of another box, or right below one.
  Bytes find_lightest(const std::vector<PlacedTree::Placed>& by_offset, const std::vector<PlacedTree::Placed>& by_end,
                      Bytes size, Bytes capacity) const {
    Bytes best = 0;
    int64_t best_weight = std::numeric_limits<int64_t>::max();
    const auto sweep = [&](const auto& candidate) {
      int64_t weight = 0;
      size_t begun = 0, ended = 0;
      for (size_t k = 0; k <= by_end.size(); ++k) {
        const Bytes offset = candidate(k);
        if (offset < 0) continue;
        if (offset + size > capacity) break;
        for (; begun < by_offset.size() && by_offset[begun].offset < offset + size; ++begun)
          weight += weight_[by_offset[begun].box];
        for (; ended < by_end.size() && by_end[ended].end <= offset; ++ended) weight -= weight_[by_end[ended].box];
        if (weight >= best_weight) continue;
        best_weight = weight;
        best = offset;
      }
    };
    sweep([&](size_t k) { return k == 0 ? 0 : by_end[k - 1].end; });
    sweep([&](size_t k) { return (k == by_offset.size() ? capacity : by_offset[k].offset) - size; });
    return best;
  }

  const Boxes& boxes_;
  Offsets offsets_;
  PlacedTree tree_;
  std::vector<char> is_placed_;
  std::vector<int32_t> waiting_;
  std::vector<int64_t> base_weight_, weight_;
};

}  // namespace

Offsets complete(const Boxes& boxes, Offsets some, const BoxOrder& others, Bytes capacity, int64_t& looks) {
  Repair state(boxes, std::move(some), Measure::ContendedArea);
  const bool is_complete = state.place_others(others, capacity, looks);
  looks -= state.looks();
  return is_complete ? state.offsets() : Offsets{};
}

Offsets repair(const Boxes& boxes, Offsets best, Bytes enough, int64_t looks) {
  constexpr int64_t kShares = 4;       // one target may take one share of the looks
  constexpr Bytes kFinestStep = 4000;  // a step of less than 1/4000 of the bound is not worth its looks
  const Bytes bound = load_of(boxes);
  Bytes height = height_of(boxes, best), failed = bound;
  Repair state(boxes, best, Measure::Area);
  int failures = 0;
  while (height > std::max(enough, bound) && state.looks() < looks) {
    if (height - failed < bound / kFinestStep) failed = bound;
    const Bytes target = std::min(height - 1, failed + (height - failed) * 4 / 5);
    if (state.lower_to(target, std::min(looks, state.looks() + looks / kShares))) {
      best = state.offsets();
      height = height_of(boxes, best);
      continue;
    }
    // The next target is easier. Every second failure starts from the best packing again, the others go on from here.
    failed = target;
    ++failures;
    state.weigh_by(failures % 2 == 0 ? Measure::Area : Measure::SizeAndRootOfTime);
    if (failures % 2 == 0) state.return_to(best);
  }
  return best;
}

}  // namespace plimsoll::plan
