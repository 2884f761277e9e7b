#include "plan/pack/pack_tree.h"

#include <algorithm>

namespace plimsoll::plan {

PlacedTree::PlacedTree(const Boxes& boxes) : boxes_(boxes) {
  for (const Box& box : boxes)
    while (width_ < box.upper) width_ *= 2;
  lists_.resize(static_cast<size_t>(width_) * 2);
  beginning_.resize(lists_.size());
  beginning_below_.assign(lists_.size(), 0);
}

template <class Edit>
void PlacedTree::edit_lists(size_t node, int32_t begin, int32_t end, const Box& box, int32_t change, const Edit& edit) {
  if (begin <= box.lower) beginning_below_[node] += change;
  if (box.lower <= begin && end <= box.upper) {
    edit(lists_[node]);
    if (begin == box.lower) edit(beginning_[node]);
    return;
  }
  const int32_t middle = (begin + end) / 2;
  if (box.lower < middle) edit_lists(node * 2, begin, middle, box, change, edit);
  if (box.upper > middle) edit_lists(node * 2 + 1, middle, end, box, change, edit);
}

void PlacedTree::add(int32_t box, Bytes offset) {
  const Placed placed{offset, offset + boxes_[box].size, box};
  edit_lists(1, 0, width_, boxes_[box], 1, [&](List& list) {
    const auto above =
        std::partition_point(list.begin(), list.end(), [&](const Placed& p) { return p.offset < offset; });
    list.insert(above, placed);
  });
}

void PlacedTree::remove(int32_t box, Bytes offset) {
  edit_lists(1, 0, width_, boxes_[box], -1, [&](List& list) {
    list.erase(std::partition_point(list.begin(), list.end(), [&](const Placed& p) { return p.offset < offset; }));
  });
}

void PlacedTree::gather(int32_t box) {
  gathered_.clear();
  run_ends_.clear();
  gather(1, 0, width_, boxes_[box]);
}

void PlacedTree::gather(size_t node, int32_t begin, int32_t end, const Box& box) {
  ++looks_;
  // All that is alive when the box begins, then what begins later.
  const bool is_at_begin = begin <= box.lower;
  if (!is_at_begin && beginning_below_[node] == 0) return;
  const List& list = is_at_begin ? lists_[node] : beginning_[node];
  if (!list.empty()) {
    looks_ += static_cast<int64_t>(list.size());
    gathered_.insert(gathered_.end(), list.begin(), list.end());
    run_ends_.push_back(gathered_.size());
  }
  if (end - begin == 1) return;
  const int32_t middle = (begin + end) / 2;
  if (box.lower < middle) gather(node * 2, begin, middle, box);
  if (box.upper > middle) gather(node * 2 + 1, middle, end, box);
}

template <class Key>
void PlacedTree::merge_runs(List& merged, const Key& key) {
  merged = gathered_;
  merging_.resize(merged.size());
  for (runs_left_ = run_ends_; runs_left_.size() > 1;) {
    size_t begin = 0, count = 0;
    for (size_t run = 0; run < runs_left_.size(); run += 2) {
      const size_t middle = runs_left_[run], end = runs_left_[std::min(run + 1, runs_left_.size() - 1)];
      std::merge(merged.begin() + static_cast<int64_t>(begin), merged.begin() + static_cast<int64_t>(middle),
                 merged.begin() + static_cast<int64_t>(middle), merged.begin() + static_cast<int64_t>(end),
                 merging_.begin() + static_cast<int64_t>(begin),
                 [&](const Placed& a, const Placed& b) { return key(a) < key(b); });
      runs_left_[count++] = begin = end;
    }
    runs_left_.resize(count);
    merged.swap(merging_);
  }
}

const std::vector<PlacedTree::Placed>& PlacedTree::by_offset() {
  merge_runs(by_offset_, [](const Placed& placed) { return placed.offset; });
  return by_offset_;
}

const std::vector<PlacedTree::Placed>& PlacedTree::by_end() {
  merge_runs(by_end_, [](const Placed& placed) { return placed.end; });
  return by_end_;
}

int64_t count_meetings(const Boxes& boxes) {
  std::vector<int64_t> begins, ends;
  for (const Box& box : boxes) {
    const auto times = static_cast<size_t>(box.upper) + 1;
    if (begins.size() < times) begins.resize(times, 0), ends.resize(times, 0);
    ++begins[box.lower];
    ++ends[box.upper];
  }
  int64_t alive = 0, meetings = 0;
  for (size_t time = 0; time < begins.size(); ++time) {
    alive -= ends[time];
    meetings += begins[time] * alive + begins[time] * (begins[time] - 1) / 2;
    alive += begins[time];
  }
  return meetings;
}

Offsets place_in_tree(const Boxes& boxes, const BoxOrder& order, Fit fit, int64_t& looks) {
  PlacedTree tree(boxes);
  Offsets offsets(boxes.size(), 0);
  for (const int32_t i : order) {
    tree.gather(i);
    Bytes floor = 0, best = -1, best_slack = 0;
    for (const PlacedTree::Placed& placed : tree.by_offset()) {
      const Bytes slack = placed.offset - floor - boxes[i].size;
      if (slack >= 0 && (best < 0 || slack < best_slack)) {
        best = floor;
        best_slack = slack;
        if (fit == Fit::Lowest || slack == 0) break;
      }
      floor = std::max(floor, placed.end);
    }
    offsets[i] = best < 0 ? floor : best;
    tree.add(i, offsets[i]);
  }
  looks -= tree.looks();
  return offsets;
}

}  // namespace plimsoll::plan
