#include "plan/pack/pack_large.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "plan/pack/pack.h"
#include "plan/pack/pack_blocks.h"
#include "plan/pack/pack_search.h"
#include "plan/pack/pack_tree.h"

namespace plimsoll::plan {
namespace {

// The lowest packing so far.
struct Lowest {
  Offsets offsets;
  Bytes height = 0;

  void offer(const Boxes& boxes, Offsets tried) {
    const Bytes tried_height = height_of(boxes, tried);
    if (!offsets.empty() && tried_height >= height) return;
    offsets = std::move(tried);
    height = tried_height;
  }
};

// Sorted by falling key, equal ones by id.
template <class Key>
BoxOrder falling(const Boxes& boxes, const Key& key) {
  BoxOrder order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(boxes[a]) > key(boxes[b]); });
  return order;
}

Bytes time_of(const Box& box) { return box.upper - box.lower; }

void offer_quick(const Boxes& boxes, Bytes enough, Lowest& lowest) {
  lowest.offer(boxes,
               place_on_skyline(boxes, falling(boxes, [](const Box& b) { return std::tuple(time_of(b), b.size); })));
  for (const bool backwards : {false, true})
    if (lowest.height > enough) lowest.offer(boxes, place_in_time(boxes, backwards));
}

// The most promising first. Boxes of equal size pack best in the order of time: the repeated layers of a network.
std::vector<BoxOrder> orders_of_many(const Boxes& boxes) {
  const auto area = [](const Box& b) { return static_cast<double>(b.size) * static_cast<double>(time_of(b)); };
  return {falling(boxes, [](const Box& b) { return std::tuple(b.size, -b.lower, time_of(b)); }),
          falling(boxes, [&](const Box& b) { return std::tuple(area(b), b.size); }),
          falling(boxes, [](const Box& b) { return std::tuple(b.size, time_of(b)); }),
          falling(boxes, [](const Box& b) { return std::tuple(time_of(b), b.size); }),
          falling(boxes, [](const Box& b) { return std::tuple(b.upper, time_of(b)); }),
          falling(boxes, [](const Box& b) { return std::tuple(-b.lower, time_of(b)); })};
}

// Tries as many orders as the looks allow. False: they do not allow one.
bool offer_orders(const Boxes& boxes, Bytes enough, int64_t looks, Lowest& lowest) {
  const int64_t cost = count_meetings(boxes) + static_cast<int64_t>(boxes.size());
  if (looks < cost) return false;
  const std::vector<BoxOrder> orders = orders_of_many(boxes);
  for (const Fit fit : {Fit::Lowest, Fit::Tightest})
    for (const BoxOrder& order : orders) {
      if (looks < cost || lowest.height <= enough) return true;
      lowest.offer(boxes, place_in_tree(boxes, order, fit, looks));
    }
  return true;
}

// Boxes so small that all of them together hardly matter, and the others.
struct Parts {
  BoxOrder tiny, core;
};

Parts split_off_tiny(const Boxes& boxes) {
  constexpr Bytes kTinyShare = 1000;  // all tiny boxes together need at most 1/1000 of the bound
  const Bytes most = load_of(boxes) / kTinyShare;
  BoxOrder order = falling(boxes, [](const Box& b) { return -b.size; });
  const auto load_of_first = [&](size_t count) {
    Boxes first;
    for (size_t i = 0; i < count; ++i) first.push_back(boxes[order[i]]);
    return count == 0 ? 0 : load_of(first);
  };
  size_t fits = 0;
  for (size_t beyond = boxes.size() + 1; beyond - fits > 1;) {
    const size_t middle = (fits + beyond) / 2;
    (load_of_first(middle) <= most ? fits : beyond) = middle;
  }
  const auto cut = order.begin() + static_cast<int64_t>(fits);
  return {{order.begin(), cut}, {cut, order.end()}};
}

Boxes pick(const Boxes& boxes, const BoxOrder& which) {
  Boxes picked;
  for (const int32_t i : which) picked.push_back(boxes[i]);
  return picked;
}

// Where comparing with all boxes alive together exceeds the budget, boxes are compared with neighbours in time only.
void offer_affordable_orders(const Boxes& boxes, Bytes enough, const LargeBudget& budget, Lowest& lowest) {
  offer_quick(boxes, enough, lowest);
  if (lowest.height <= enough || offer_orders(boxes, enough, budget.greedy_looks, lowest)) return;
  int64_t scans = budget.scans;
  lowest.offer(boxes, pack_greedy(boxes, enough, scans));
}

// Joins boxes into rows and stacks, if that leaves few enough blocks for the exact search.
void offer_blocks(const Boxes& boxes, Bytes enough, const LargeBudget& budget, Lowest& lowest) {
  const BoxBlocks blocks(boxes);
  const Boxes outermost = blocks.outermost();
  if (outermost.size() > boxes.size() / 2 || !is_searchable(outermost)) return;
  std::vector<PackItem> items;
  for (const Box& box : outermost) items.push_back({box.lower, box.upper, box.size});
  const Packing packing = pack(items, 1, enough, {.scans = budget.scans, .nodes = budget.nodes});
  lowest.offer(boxes, blocks.take_apart(packing.offsets));
}

void offer_repaired(const Boxes& boxes, Bytes enough, const LargeBudget& budget, Lowest& lowest) {
  if (lowest.height > enough) lowest.offer(boxes, repair(boxes, lowest.offsets, enough, budget.repair_looks));
}

// Puts tiny boxes into a strip at the bottom, so that fewer boxes are left to pack.
void offer_on_strip(const Boxes& boxes, const Parts& parts, Bytes enough, const LargeBudget& budget, Lowest& lowest) {
  const Boxes tiny = pick(boxes, parts.tiny), core = pick(boxes, parts.core);
  Lowest strip, rest;
  offer_quick(tiny, load_of(tiny), strip);
  const Bytes enough_above = std::max(enough - strip.height, load_of(core));
  offer_affordable_orders(core, enough_above, budget, rest);
  offer_repaired(core, enough_above, budget, rest);
  Offsets offsets(boxes.size(), 0);
  for (size_t i = 0; i < tiny.size(); ++i) offsets[parts.tiny[i]] = strip.offsets[i];
  for (size_t i = 0; i < core.size(); ++i) offsets[parts.core[i]] = strip.height + rest.offsets[i];
  lowest.offer(boxes, std::move(offsets));
}

}  // namespace

Offsets pack_large(const Boxes& boxes, Bytes enough, const LargeBudget& budget) {
  constexpr size_t kWorthwhile = 10;  // one in so many boxes must be tiny
  Lowest lowest;
  offer_affordable_orders(boxes, enough, budget, lowest);
  if (lowest.height > enough && budget.nodes > 0) offer_blocks(boxes, enough, budget, lowest);
  if (lowest.height > enough) lowest.offer(boxes, pack_contended_first(boxes, lowest.offsets, enough, budget));
  if (lowest.height <= enough) return lowest.offsets;
  const Parts parts = split_off_tiny(boxes);
  if (parts.tiny.size() < boxes.size() / kWorthwhile || parts.core.empty())
    offer_repaired(boxes, enough, budget, lowest);
  else
    offer_on_strip(boxes, parts, enough, budget, lowest);
  return lowest.offsets;
}

}  // namespace plimsoll::plan
