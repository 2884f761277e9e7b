#include "plan/pack/pack_blocks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace plimsoll::plan {
namespace {

// The blocks that are no part of another, indexed by what they can be joined with.
class OpenBlocks {
 public:
  explicit OpenBlocks(const Boxes& blocks) : blocks_(blocks) {}

  void add(int32_t block) {
    const Box& box = blocks_[block];
    begins_.insert({box.lower, box.size, block});
    ends_.insert({box.upper, box.size, block});
    lives_.insert({length(box), box.lower, block});
    if (find_two(length(box), box.lower)) repeated_.insert({length(box), box.lower});
  }

  void remove(int32_t block) {
    const Box& box = blocks_[block];
    begins_.erase({box.lower, box.size, block});
    ends_.erase({box.upper, box.size, block});
    lives_.erase({length(box), box.lower, block});
  }

  bool has(int32_t block) const {
    const Box& box = blocks_[block];
    return lives_.contains({length(box), box.lower, block});
  }

  // One of the same size that begins when this one ends, or ends when it begins; -1 when there is none.
  int32_t find_next(const Box& box) const { return find(begins_, box.upper, box.size); }
  int32_t find_previous(const Box& box) const { return find(ends_, box.lower, box.size); }

  // Two blocks with the same life, the shortest that there is.
  std::optional<std::pair<int32_t, int32_t>> take_stackable() {
    while (!repeated_.empty()) {
      const auto [length, lower] = *repeated_.begin();
      if (const auto two = find_two(length, lower)) return two;
      repeated_.erase(repeated_.begin());
    }
    return {};
  }

  BoxOrder list() const {
    BoxOrder blocks;
    for (const auto& [length, lower, block] : lives_) blocks.push_back(block);
    return blocks;
  }

 private:
  using BySize = std::set<std::tuple<int32_t, Bytes, int32_t>>;  // a time, a size, the block

  static int32_t length(const Box& box) { return box.upper - box.lower; }

  static int32_t find(const BySize& blocks, int32_t time, Bytes size) {
    const auto at = blocks.lower_bound({time, size, -1});
    if (at == blocks.end() || std::get<0>(*at) != time || std::get<1>(*at) != size) return -1;
    return std::get<2>(*at);
  }

  std::optional<std::pair<int32_t, int32_t>> find_two(int32_t length, int32_t lower) const {
    const auto is_wanted = [&](auto at) {
      return at != lives_.end() && std::get<0>(*at) == length && std::get<1>(*at) == lower;
    };
    const auto first = lives_.lower_bound({length, lower, -1});
    if (!is_wanted(first) || !is_wanted(std::next(first))) return {};
    return std::pair(std::get<2>(*first), std::get<2>(*std::next(first)));
  }

  const Boxes& blocks_;
  BySize begins_, ends_;
  std::set<std::tuple<int32_t, int32_t, int32_t>> lives_;  // length, begin, the block
  std::set<std::pair<int32_t, int32_t>> repeated_;         // length and begin of lives that two blocks had
};

}  // namespace

// Rows are made first: neighbours in time of equal size are less often a coincidence than boxes with equal lives.
// Stacks are made only when no row can be, the shortest first, since the shortest pieces of a rectangle were cut last.
BoxBlocks::BoxBlocks(const Boxes& boxes) : blocks_(boxes) {
  blocks_.reserve(boxes.size() * 2);
  OpenBlocks open(blocks_);
  BoxOrder fresh;  // those that may be part of a row
  for (size_t i = 0; i < boxes.size(); ++i) {
    open.add(static_cast<int32_t>(i));
    fresh.push_back(static_cast<int32_t>(i));
  }
  const auto join = [&](int32_t first, int32_t second, bool is_stack) {
    open.remove(first);
    open.remove(second);
    Box whole{blocks_[first].lower, blocks_[second].upper, blocks_[first].size};
    if (is_stack) whole.size += blocks_[second].size;
    const auto made = static_cast<int32_t>(blocks_.size());
    blocks_.push_back(whole);
    joins_.push_back({first, second, is_stack});
    open.add(made);
    fresh.push_back(made);
  };
  while (true) {
    while (!fresh.empty()) {
      const int32_t block = fresh.back();
      fresh.pop_back();
      if (!open.has(block)) continue;
      const int32_t next = open.find_next(blocks_[block]);
      const int32_t previous = next < 0 ? open.find_previous(blocks_[block]) : -1;
      if (next >= 0) join(block, next, false);
      if (previous >= 0) join(previous, block, false);
    }
    const auto stackable = open.take_stackable();
    if (!stackable) break;
    join(stackable->first, stackable->second, true);
  }
  outermost_ = open.list();
}

Boxes BoxBlocks::outermost() const {
  Boxes boxes;
  for (const int32_t block : outermost_) boxes.push_back(blocks_[block]);
  return boxes;
}

Offsets BoxBlocks::take_apart(const Offsets& outermost) const {
  Offsets offsets(blocks_.size(), 0);
  for (size_t k = 0; k < outermost_.size(); ++k) offsets[outermost_[k]] = outermost[k];
  const size_t count = blocks_.size() - joins_.size();
  for (size_t k = joins_.size(); k-- > 0;) {
    const Join& join = joins_[k];
    offsets[join.first] = offsets[join.second] = offsets[count + k];
    if (join.is_stack) offsets[join.second] += blocks_[join.first].size;
  }
  offsets.resize(count);
  return offsets;
}

}  // namespace plimsoll::plan
