#include "plan/pack/pack.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "plan/pack/pack_boxes.h"
#include "plan/pack/pack_large.h"
#include "plan/pack/pack_search.h"

namespace plimsoll::plan {
namespace {

// Boxes of a stretch of time that nothing crosses, and which of the caller's boxes they are.
struct Piece {
  Boxes boxes;
  BoxOrder ids;
};

// Cuts where nothing is alive across the cut.
std::vector<Piece> split_at_quiet_times(const Piece& whole) {
  BoxOrder by_lower(whole.boxes.size());
  std::iota(by_lower.begin(), by_lower.end(), 0);
  std::stable_sort(by_lower.begin(), by_lower.end(),
                   [&](int32_t a, int32_t b) { return whole.boxes[a].lower < whole.boxes[b].lower; });
  std::vector<Piece> pieces;
  int32_t end = -1;
  for (const int32_t i : by_lower) {
    if (whole.boxes[i].lower >= end) pieces.emplace_back();
    end = std::max(end, whole.boxes[i].upper);
    pieces.back().boxes.push_back(whole.boxes[i]);
    pieces.back().ids.push_back(whole.ids[i]);
  }
  return pieces;
}

// Renumbers time to sections, the moments of maximal overlap: two boxes meet exactly when they share a section.
void compress_times(Boxes& boxes) {
  struct Event {
    int32_t time;
    bool is_start;
    int32_t box;
    auto key() const { return std::tuple(time, is_start, box); }  // ends come first
  };
  std::vector<Event> events;
  events.reserve(boxes.size() * 2);
  for (size_t i = 0; i < boxes.size(); ++i) {
    events.push_back({boxes[i].lower, true, static_cast<int32_t>(i)});
    events.push_back({boxes[i].upper, false, static_cast<int32_t>(i)});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.key() < b.key(); });
  int32_t section = 0;
  bool has_started = false;
  for (const Event& event : events) {
    if (!event.is_start && has_started) ++section;
    has_started = event.is_start;
    (event.is_start ? boxes[event.box].lower : boxes[event.box].upper) = section;
  }
}

class Packer {
 public:
  Packer(size_t count, Bytes enough, bool aims_at_enough, const PackBudget& budget)
      : enough_(enough), aims_at_enough_(aims_at_enough), budget_(budget), offsets_(count, 0) {}

  void pack(const Piece& whole, Bytes floor, int depth) {
    for (Piece& piece : split_at_quiet_times(whole)) pack_piece(piece, floor, depth);
  }

  const Offsets& offsets() const { return offsets_; }

 private:
  // A box that lives through all of its piece can lie at the bottom without loss; the others may then split into pieces
  // that never meet.
  void pack_piece(Piece& piece, Bytes floor, int depth) {
    int32_t begin = piece.boxes[0].lower, end = 0;
    for (const Box& box : piece.boxes) end = std::max(end, box.upper);
    Piece rest;
    for (size_t i = 0; i < piece.boxes.size(); ++i) {
      const Box& box = piece.boxes[i];
      if (box.lower == begin && box.upper == end) {
        offsets_[piece.ids[i]] = floor;
        floor += box.size;
      } else {
        rest.boxes.push_back(box);
        rest.ids.push_back(piece.ids[i]);
      }
    }
    if (rest.boxes.empty()) return;
    if (rest.boxes.size() < piece.boxes.size() && depth > 0) return pack(rest, floor, depth - 1);
    compress_times(rest.boxes);
    const Offsets found = pack_boxes(rest.boxes, std::max(enough_ - floor, load_of(rest.boxes)));
    for (size_t i = 0; i < rest.ids.size(); ++i) offsets_[rest.ids[i]] = floor + found[i];
  }

  // Each piece has its own share of the budget, so that a piece which needs less does not change how others are packed.
  Offsets pack_boxes(const Boxes& boxes, Bytes enough) {
    const double share = static_cast<double>(boxes.size()) / static_cast<double>(offsets_.size());
    auto scans = static_cast<int64_t>(static_cast<double>(budget_.scans) * share);
    auto nodes = static_cast<int64_t>(static_cast<double>(budget_.nodes) * share);
    if (offsets_.size() >= kLarge && !is_searchable(boxes)) return pack_large(boxes, enough, large_budget(share));
    Offsets best = pack_greedy(boxes, enough, scans);
    Bytes height = height_of(boxes, best);
    if (height <= enough || nodes <= 0) return best;
    if (!is_searchable(boxes)) return improve_order(boxes, std::move(best), enough, nodes * kScansPerNode);
    const auto try_capacity = [&](Bytes capacity, int64_t spend) {
      spend = std::min(spend, nodes);
      nodes -= spend;
      SearchResult result = pack_search(boxes, capacity, spend);
      nodes += spend;
      if (result.feasibility == Feasibility::Fits) {
        best = std::move(result.offsets);
        height = height_of(boxes, best);
      }
      return result.feasibility;
    };
    if (aims_at_enough_) {
      try_capacity(enough, nodes);
      return best;
    }
    // First the lower bound, which most real problems reach; then bisection between it and the height found.
    Bytes lowest = load_of(boxes);
    const int64_t slice = nodes / 4;
    if (try_capacity(lowest, 2 * slice) == Feasibility::Impossible) ++lowest;
    while (height > enough && height > lowest && nodes > slice / 16) {
      const Bytes middle = lowest + (height - lowest) / 2;
      if (try_capacity(middle, slice / 2) != Feasibility::Fits) lowest = middle + 1;
    }
    return best;
  }

  // Effort beyond these limits changes little; each limit is about two seconds of work.
  LargeBudget large_budget(double share) const {
    constexpr int64_t kScansPerLook = 8, kLooksPerNode = 16;
    constexpr int64_t kMostGreedyLooks = 64'000'000, kMostRepairLooks = 50'000'000, kMostScans = 400'000'000;
    constexpr int64_t kMostNodes = 300'000;
    const auto part = [&](int64_t whole) { return static_cast<int64_t>(static_cast<double>(whole) * share); };
    return {.greedy_looks = part(std::min(budget_.scans / kScansPerLook, kMostGreedyLooks)),
            .repair_looks = part(std::min(budget_.nodes * kLooksPerNode, kMostRepairLooks)),
            .scans = part(std::min(budget_.scans, kMostScans)),
            .nodes = part(std::min(budget_.nodes, kMostNodes))};
  }

  static constexpr size_t kLarge = 10'000;
  static constexpr int64_t kScansPerNode = 1024;
  const Bytes enough_;
  const bool aims_at_enough_;
  const PackBudget budget_;
  Offsets offsets_;
};

Packing pack_with(std::span<const PackItem> items, Bytes alignment, Bytes enough, bool aims_at_enough,
                  const PackBudget& budget) {
  Packing packing;
  packing.offsets.assign(items.size(), 0);
  std::vector<int64_t> times;
  for (const PackItem& item : items)
    if (item.size > 0 && item.lower < item.upper) {
      times.push_back(item.lower);
      times.push_back(item.upper);
    }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto rank = [&](int64_t time) {
    return static_cast<int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  Piece whole;
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].size > 0 && items[i].lower < items[i].upper) {
      whole.boxes.push_back({rank(items[i].lower), rank(items[i].upper), (items[i].size + alignment - 1) / alignment});
      whole.ids.push_back(static_cast<int32_t>(i));
    }
  if (whole.boxes.empty()) return packing;
  const Bytes bound = load_of(whole.boxes);
  Packer packer(items.size(), std::max(bound, enough / alignment), aims_at_enough, budget);
  // Peeling and splitting costs a pass over the boxes each time.
  const auto depth = static_cast<int>(std::clamp<size_t>(400'000 / whole.boxes.size(), 2, 64));
  packer.pack(whole, 0, depth);
  for (size_t i = 0; i < items.size(); ++i) {
    packing.offsets[i] = packer.offsets()[i] * alignment;
    if (items[i].size > 0)
      packing.height =
          std::max(packing.height, packing.offsets[i] + (items[i].size + alignment - 1) / alignment * alignment);
  }
  packing.lower_bound = bound * alignment;
  return packing;
}

}  // namespace

Packing pack(std::span<const PackItem> items, Bytes alignment, Bytes enough, const PackBudget& budget) {
  return pack_with(items, alignment, enough, false, budget);
}

Packing pack_into(std::span<const PackItem> items, Bytes alignment, Bytes capacity, const PackBudget& budget) {
  return pack_with(items, alignment, capacity, true, budget);
}

}  // namespace plimsoll::plan
