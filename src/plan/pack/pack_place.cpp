#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "plan/pack/pack_boxes.h"

namespace plimsoll::plan {
namespace {

int32_t times_of(const Boxes& boxes) {
  int32_t times = 1;
  for (const Box& box : boxes) times = std::max(times, box.upper);
  return times;
}

// Free ranges below the top, found by size (tightest first) and merged by offset.
class FreeList {
 public:
  Bytes take(Bytes size) {
    const auto fit = by_size_.lower_bound({size, 0});
    if (fit != by_size_.end()) {
      const auto [found, offset] = *fit;
      remove(offset, found);
      if (found > size) insert(offset + size, found - size);
      return offset;
    }
    // Nothing fits: grow, from the last free range when it touches the top.
    Bytes offset = top_;
    if (!by_offset_.empty()) {
      const auto [last, length] = *by_offset_.rbegin();
      if (last + length == top_) {
        offset = last;
        remove(last, length);
      }
    }
    top_ = offset + size;
    return offset;
  }

  void give_back(Bytes offset, Bytes size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      size += next->second;
      const auto gone = *next++;
      remove(gone.first, gone.second);
    }
    if (next != by_offset_.begin()) {
      const auto before = *std::prev(next);
      if (before.first + before.second == offset) {
        offset = before.first;
        size += before.second;
        remove(before.first, before.second);
      }
    }
    insert(offset, size);
  }

 private:
  void insert(Bytes offset, Bytes size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void remove(Bytes offset, Bytes size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }
  Bytes top_ = 0;
  std::map<Bytes, Bytes> by_offset_;
  std::set<std::pair<Bytes, Bytes>> by_size_;
};

// Placed boxes by stretches of time, each stretch sorted by offset.
class Shelves {
 public:
  Shelves(const Boxes& boxes, const Offsets& offsets, int32_t times, int32_t stretch)
      : boxes_(boxes), offsets_(offsets), stretch_(stretch), shelves_(static_cast<size_t>(times / stretch + 1)) {}

  void add(int32_t index) {
    for (int32_t k = boxes_[index].lower / stretch_; k <= (boxes_[index].upper - 1) / stretch_; ++k) {
      auto& shelf = shelves_[k];
      const Placed placed{offsets_[index], offsets_[index] + boxes_[index].size, boxes_[index].lower,
                          boxes_[index].upper};
      shelf.insert(std::upper_bound(shelf.begin(), shelf.end(), placed), placed);
    }
  }

  // The lowest or tightest hole at or above `floor` for a box of this size and time.
  Bytes find_hole(const Box& box, Fit fit, Bytes floor) {
    found_.clear();
    const int32_t first = box.lower / stretch_, last = (box.upper - 1) / stretch_;
    for (int32_t k = first; k <= last; ++k)
      for (const Placed& placed : shelves_[k])
        if (placed.lower < box.upper && box.lower < placed.upper &&
            (k == first || placed.lower / stretch_ == k))  // seen in an earlier stretch otherwise
          found_.emplace_back(placed.offset, placed.end);
    if (first != last) std::sort(found_.begin(), found_.end());
    Bytes best = -1, best_slack = 0;
    for (const auto& [offset, end] : found_) {
      const Bytes slack = offset - floor - box.size;
      if (slack >= 0 && (best < 0 || slack < best_slack)) {
        best = floor;
        best_slack = slack;
        if (fit == Fit::Lowest || slack == 0) return best;
      }
      floor = std::max(floor, end);
    }
    return best < 0 ? floor : best;
  }

 private:
  struct Placed {
    Bytes offset, end;
    int32_t lower, upper;
    bool operator<(const Placed& other) const { return offset < other.offset; }
  };
  const Boxes& boxes_;
  const Offsets& offsets_;
  const int32_t stretch_;
  std::vector<std::vector<Placed>> shelves_;
  std::vector<std::pair<Bytes, Bytes>> found_;
};

}  // namespace

Bytes height_of(const Boxes& boxes, const Offsets& offsets) {
  Bytes height = 0;
  for (size_t i = 0; i < boxes.size(); ++i) height = std::max(height, offsets[i] + boxes[i].size);
  return height;
}

std::vector<Bytes> loads_of(const Boxes& boxes) {
  std::vector<Bytes> loads(static_cast<size_t>(times_of(boxes)) + 1, 0);
  for (const Box& box : boxes) {
    loads[box.lower] += box.size;
    loads[box.upper] -= box.size;
  }
  std::partial_sum(loads.begin(), loads.end(), loads.begin());
  loads.pop_back();
  return loads;
}

Bytes load_of(const Boxes& boxes) {
  const std::vector<Bytes> loads = loads_of(boxes);
  return *std::max_element(loads.begin(), loads.end());
}

Skyline::Skyline(int32_t times) {
  while (width_ < times) width_ *= 2;
  nodes_.resize(static_cast<size_t>(width_) * 2);
}

Bytes Skyline::top(size_t node, int32_t begin, int32_t end, int32_t lower, int32_t upper) const {
  if (upper <= begin || end <= lower) return 0;
  if (lower <= begin && end <= upper) return nodes_[node].highest;
  const int32_t middle = (begin + end) / 2;
  return std::max(
      {nodes_[node].whole, top(node * 2, begin, middle, lower, upper), top(node * 2 + 1, middle, end, lower, upper)});
}

void Skyline::raise(size_t node, int32_t begin, int32_t end, int32_t lower, int32_t upper, Bytes top) {
  if (upper <= begin || end <= lower) return;
  nodes_[node].highest = std::max(nodes_[node].highest, top);
  if (lower <= begin && end <= upper) {
    nodes_[node].whole = std::max(nodes_[node].whole, top);
    return;
  }
  const int32_t middle = (begin + end) / 2;
  raise(node * 2, begin, middle, lower, upper, top);
  raise(node * 2 + 1, middle, end, lower, upper, top);
}

Offsets place_on_skyline(const Boxes& boxes, const BoxOrder& order) {
  Skyline skyline(times_of(boxes));
  Offsets offsets(boxes.size(), 0);
  for (const int32_t i : order) {
    offsets[i] = skyline.top(boxes[i].lower, boxes[i].upper);
    skyline.raise(boxes[i].lower, boxes[i].upper, offsets[i] + boxes[i].size);
  }
  return offsets;
}

Offsets place_in_time(const Boxes& boxes, bool backwards) {
  const auto begin = [&](int32_t i) { return backwards ? -boxes[i].upper : boxes[i].lower; };
  const auto end = [&](int32_t i) { return backwards ? -boxes[i].lower : boxes[i].upper; };
  BoxOrder by_begin(boxes.size());
  std::iota(by_begin.begin(), by_begin.end(), 0);
  BoxOrder by_end = by_begin;
  // Among those that begin together the longest goes lowest, so that space freed above it merges.
  std::sort(by_begin.begin(), by_begin.end(), [&](int32_t a, int32_t b) {
    return std::tuple(begin(a), -end(a), -boxes[a].size, a) < std::tuple(begin(b), -end(b), -boxes[b].size, b);
  });
  std::sort(by_end.begin(), by_end.end(),
            [&](int32_t a, int32_t b) { return std::pair(end(a), a) < std::pair(end(b), b); });
  FreeList free;
  Offsets offsets(boxes.size(), 0);
  size_t ended = 0;
  for (const int32_t i : by_begin) {
    for (; end(by_end[ended]) <= begin(i); ++ended) free.give_back(offsets[by_end[ended]], boxes[by_end[ended]].size);
    offsets[i] = free.take(boxes[i].size);
  }
  return offsets;
}

Offsets place_in_holes(const Boxes& boxes, const BoxOrder& order, Fit fit, int32_t long_time) {
  const int32_t times = times_of(boxes);
  Offsets offsets(boxes.size(), 0);
  const bool has_long = long_time < times;
  Skyline skyline(has_long ? times : 1);
  if (has_long) {
    BoxOrder longs;
    for (const int32_t i : order)
      if (boxes[i].upper - boxes[i].lower > long_time) longs.push_back(i);
    std::sort(longs.begin(), longs.end(), [&](int32_t a, int32_t b) {
      return std::pair(boxes[a].lower - boxes[a].upper, a) < std::pair(boxes[b].lower - boxes[b].upper, b);
    });
    for (const int32_t i : longs) {
      offsets[i] = skyline.top(boxes[i].lower, boxes[i].upper);
      skyline.raise(boxes[i].lower, boxes[i].upper, offsets[i] + boxes[i].size);
    }
  }
  Shelves shelves(boxes, offsets, times, std::clamp(long_time, 1, times));
  for (const int32_t i : order) {
    if (has_long && boxes[i].upper - boxes[i].lower > long_time) continue;
    const Bytes floor = has_long ? skyline.top(boxes[i].lower, boxes[i].upper) : 0;
    offsets[i] = shelves.find_hole(boxes[i], fit, floor);
    shelves.add(i);
  }
  return offsets;
}

}  // namespace plimsoll::plan
