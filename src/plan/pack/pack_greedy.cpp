#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "plan/pack/pack_boxes.h"

namespace plimsoll::plan {
namespace {

// Boxes sorted by falling key; equal keys by falling second key, then by id.
BoxOrder sorted_by(const Boxes& boxes, const std::function<std::pair<double, double>(const Box&)>& key) {
  std::vector<std::pair<double, double>> keys(boxes.size());
  for (size_t i = 0; i < boxes.size(); ++i) keys[i] = key(boxes[i]);
  BoxOrder order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  return order;
}

std::vector<BoxOrder> make_orders(const Boxes& boxes) {
  const auto time = [](const Box& box) { return static_cast<double>(box.upper - box.lower); };
  const auto size = [](const Box& box) { return static_cast<double>(box.size); };
  std::vector<BoxOrder> orders;
  orders.push_back(sorted_by(boxes, [&](const Box& b) { return std::pair(time(b), size(b)); }));
  orders.push_back(sorted_by(boxes, [&](const Box& b) { return std::pair(size(b), time(b)); }));
  orders.push_back(sorted_by(boxes, [&](const Box& b) { return std::pair(time(b) * size(b), size(b)); }));
  orders.push_back(sorted_by(boxes, [&](const Box& b) { return std::pair(-1.0 * b.lower, time(b)); }));
  orders.push_back(sorted_by(boxes, [&](const Box& b) { return std::pair(1.0 * b.upper, time(b)); }));
  return orders;
}

// Boxes that live longer than this are placed apart, so that a pass over the neighbours of all others costs at most
// `scans`.
int32_t affordable_time(const Boxes& boxes, int64_t scans) {
  std::vector<int32_t> lengths(boxes.size());
  int32_t times = 1;
  for (size_t i = 0; i < boxes.size(); ++i) {
    lengths[i] = boxes[i].upper - boxes[i].lower;
    times = std::max(times, boxes[i].upper);
  }
  for (int32_t length = times / 2; length > 1; length /= 2) {
    const auto count = static_cast<double>(
        std::count_if(lengths.begin(), lengths.end(), [&](int32_t other) { return other <= length; }));
    // A box is compared with the boxes of at most two stretches of time: this share of all when they are spread evenly.
    if (count * count * 3 * length / times <= static_cast<double>(scans)) return length;
  }
  return 1;
}

}  // namespace

Offsets pack_greedy(const Boxes& boxes, Bytes enough, int64_t& scans) {
  Offsets best;
  Bytes best_height = 0;
  const auto is_done = [&](Offsets offsets) {
    const Bytes height = height_of(boxes, offsets);
    if (best.empty() || height < best_height) {
      best = std::move(offsets);
      best_height = height;
    }
    return best_height <= enough;
  };
  const std::vector<BoxOrder> orders = make_orders(boxes);
  if (is_done(place_on_skyline(boxes, orders[0]))) return best;
  if (is_done(place_in_time(boxes, false)) || is_done(place_in_time(boxes, true))) return best;
  // Comparing with all boxes packs best; when one pass of that exceeds the budget, only neighbours in time are
  // compared.
  const auto count = static_cast<int64_t>(boxes.size());
  const int64_t whole_pass = count * count / 2 + count;
  const bool is_whole = whole_pass <= scans;
  const int32_t long_time = is_whole ? std::numeric_limits<int32_t>::max() : affordable_time(boxes, scans / 10);
  const int64_t cost = is_whole ? whole_pass : scans / 10 + 1;
  for (const Fit fit : {Fit::Tightest, Fit::Lowest})
    for (const size_t which : {1, 2, 0, 4, 3}) {
      if (scans < cost) return best;
      scans -= cost;
      if (is_done(place_in_holes(boxes, orders[which], fit, long_time))) return best;
    }
  return best;
}

}  // namespace plimsoll::plan
