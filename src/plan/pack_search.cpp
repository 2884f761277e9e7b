#include "plan/pack_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace plimsoll {
namespace {

constexpr Bytes kNever = std::numeric_limits<Bytes>::max() / 4;

uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Time is a row of sections. Each has a top, below which all is settled, and bytes still to come. A valley is a run of
// sections of equal top between higher walls: what lies at its floor must lie inside its walls.
//
//   top |#####        ####     In some section of the valley, the next box is one of those that cover it and fit
//       |#####........####     between the walls, or nothing starts here and the top rises: these are the branches.
//       |#####........####
//
// A branch raises tops; a box cannot lie below the tops of its time, and a top rises to the lowest box that can come
// next, until nothing moves. It fails when a top and the bytes to come pass the capacity.
class Search {
 public:
  Search(const Boxes& boxes, Bytes capacity, size_t memory) : boxes_(boxes), capacity_(capacity), refuted_(memory, 0) {
    for (const Box& box : boxes_) sections_ = std::max(sections_, box.upper);
    const size_t sections = static_cast<size_t>(sections_);
    covers_.resize(sections);
    initial_left_.assign(sections, 0);
    for (size_t i = 0; i < boxes_.size(); ++i)
      for (int32_t s = boxes_[i].lower; s < boxes_[i].upper; ++s) {
        covers_[s].push_back(static_cast<int32_t>(i));
        initial_left_[s] += boxes_[i].size;
      }
    is_queued_.assign(sections, 0);
  }

  Verdict run(const std::vector<double>& preference, int64_t& nodes) {
    preference_ = &preference;
    nodes_ = nodes;
    const size_t sections = static_cast<size_t>(sections_);
    top_.assign(sections, 0);
    next_.assign(sections, 0);
    left_ = initial_left_;
    lowest_.assign(boxes_.size(), 0);
    is_placed_.assign(boxes_.size(), 0);
    waiting_hash_.assign(sections, 0);
    for (size_t i = 0; i < boxes_.size(); ++i) waiting_hash_[boxes_[i].lower] ^= mix(i + 1);
    offsets_.assign(boxes_.size(), 0);
    trail_.clear();
    queue_.clear();
    for (const Bytes left : left_)
      if (left > capacity_) return Verdict::Impossible;
    const bool fits = solve_pieces(0, sections_);
    nodes = nodes_;
    if (fits) return Verdict::Fits;
    return nodes_ > 0 ? Verdict::Impossible : Verdict::Unknown;
  }

  const Offsets& offsets() const { return offsets_; }

 private:
  struct Change {
    Bytes* where;
    Bytes old;
  };
  struct Choice {
    int32_t section = -1;
    int32_t count = std::numeric_limits<int32_t>::max();
    Bytes slack = 0;
  };

  void set(Bytes& where, Bytes value) {
    trail_.push_back({&where, where});
    where = value;
  }

  void undo(size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) *trail_.back().where = trail_.back().old;
  }

  bool raise(int32_t section, Bytes top) {
    if (top <= top_[section]) return true;
    set(top_[section], top);
    if (left_[section] == 0) return true;
    if (top + left_[section] > capacity_) return false;
    if (!is_queued_[section]) {
      is_queued_[section] = 1;
      queue_.push_back(section);
    }
    return true;
  }

  // Carries raised tops to the boxes that cover them and back to the tops, until nothing moves.
  bool propagate() {
    bool is_sound = true;
    while (!queue_.empty()) {
      const int32_t section = queue_.back();
      queue_.pop_back();
      is_queued_[section] = 0;
      if (!is_sound) continue;
      const Bytes top = top_[section];
      for (const int32_t i : covers_[section]) {
        if (is_placed_[i] || lowest_[i] >= top) continue;
        const Bytes old = lowest_[i];
        set(lowest_[i], top);
        for (int32_t s = boxes_[i].lower; s < boxes_[i].upper && is_sound; ++s)
          if (next_[s] == old) is_sound = find_next(s);
        if (!is_sound) break;
      }
    }
    return is_sound;
  }

  // The lowest place where anything can come next in a section.
  bool find_next(int32_t section) {
    Bytes next = kNever;
    for (const int32_t i : covers_[section])
      if (!is_placed_[i]) next = std::min(next, lowest_[i]);
    if (next != next_[section]) set(next_[section], next);
    return next == kNever || raise(section, next);
  }

  bool place(int32_t index) {
    const Box& box = boxes_[index];
    is_placed_[index] = 1;
    offsets_[index] = lowest_[index];
    waiting_hash_[box.lower] ^= mix(static_cast<uint64_t>(index) + 1);
    bool is_sound = true;
    for (int32_t s = box.lower; s < box.upper; ++s) set(left_[s], left_[s] - box.size);
    for (int32_t s = box.lower; s < box.upper && is_sound; ++s) is_sound = raise(s, lowest_[index] + box.size);
    for (int32_t s = box.lower; s < box.upper && is_sound; ++s) is_sound = find_next(s);
    return propagate() && is_sound;
  }

  void take_back(int32_t index, size_t mark) {
    undo(mark);
    is_placed_[index] = 0;
    waiting_hash_[boxes_[index].lower] ^= mix(static_cast<uint64_t>(index) + 1);
  }

  // Sections with nothing to come separate what never meets.
  bool solve_pieces(int32_t begin, int32_t end) {
    std::vector<std::pair<int32_t, int32_t>> pieces;
    for (int32_t s = begin; s < end;) {
      if (left_[s] == 0) {
        ++s;
        continue;
      }
      int32_t stop = s;
      while (stop < end && left_[stop] != 0) ++stop;
      pieces.push_back({s, stop});
      s = stop;
    }
    if (pieces.size() > 1)  // small ones fail fast
      std::stable_sort(pieces.begin(), pieces.end(),
                       [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
    for (const auto& [from, to] : pieces)
      if (!solve(from, to)) return false;
    return true;
  }

  uint64_t hash_of(int32_t begin, int32_t end) const {
    uint64_t hash = static_cast<uint64_t>(begin) * 0x9e3779b97f4a7c15u;
    for (int32_t s = begin; s < end; ++s)
      hash = (hash ^ static_cast<uint64_t>(top_[s]) ^ waiting_hash_[s]) * 0x9e3779b97f4a7c15u + (hash >> 29);
    return mix(hash) | 1;
  }

  // The section of some valley with the fewest boxes that can lie at its floor.
  Choice choose(int32_t begin, int32_t end) const {
    Choice best;
    for (int32_t s = begin; s < end;) {
      int32_t stop = s;
      while (stop < end && top_[stop] == top_[s]) ++stop;
      const bool is_valley = (s == begin || top_[s - 1] > top_[s]) && (stop == end || top_[stop] > top_[s]);
      for (int32_t k = s; is_valley && k < stop; ++k) {
        int32_t count = 0;
        for (const int32_t i : covers_[k]) count += !is_placed_[i] && lowest_[i] == top_[k];
        const Bytes slack = capacity_ - left_[k] - top_[k];
        count = count * 2 + (slack > 0 ? 1 : 0);
        if (std::pair(count, slack) < std::pair(best.count, best.slack)) best = {k, count, slack};
      }
      s = stop;
    }
    return best;
  }

  // When nothing starts at the floor of a section, the next box there lies on one that does not cover it.
  Bytes top_after_gap(int32_t section, int32_t begin, int32_t end) const {
    const Bytes floor = top_[section];
    Bytes lowest = kNever;
    for (const int32_t i : covers_[section]) {
      if (is_placed_[i]) continue;
      if (lowest_[i] > floor) {
        lowest = std::min(lowest, lowest_[i]);
        continue;
      }
      for (int32_t s = std::max(begin, boxes_[i].lower); s < std::min(end, boxes_[i].upper); ++s)
        for (const int32_t j : covers_[s])
          if (!is_placed_[j] && (boxes_[j].upper <= section || boxes_[j].lower > section))
            lowest = std::min(lowest, lowest_[j] + boxes_[j].size);
    }
    return lowest;
  }

  bool solve(int32_t begin, int32_t end) {
    const uint64_t hash = hash_of(begin, end);
    uint64_t& slot = refuted_[hash % refuted_.size()];
    if (slot == hash) return false;
    const Choice choice = choose(begin, end);
    const int32_t section = choice.section;
    std::vector<int32_t> candidates;
    for (const int32_t i : covers_[section])
      if (!is_placed_[i] && lowest_[i] == top_[section]) candidates.push_back(i);
    std::sort(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) {
      return std::pair(-(*preference_)[a], a) < std::pair(-(*preference_)[b], b);
    });
    const size_t mark = trail_.size();
    for (size_t c = 0; c < candidates.size(); ++c) {
      const int32_t i = candidates[c];
      const bool has_twin = std::any_of(candidates.begin(), candidates.begin() + static_cast<int64_t>(c), [&](int32_t j) {
        return boxes_[i].lower == boxes_[j].lower && boxes_[i].upper == boxes_[j].upper && boxes_[i].size == boxes_[j].size;
      });
      if (has_twin) continue;
      if (--nodes_ <= 0) return false;
      if (place(i) && solve_pieces(begin, end)) return true;
      take_back(i, mark);
      if (nodes_ <= 0) return false;
    }
    if (choice.slack > 0) {
      const Bytes top = top_after_gap(section, begin, end);
      if (top != kNever && top + left_[section] <= capacity_) {
        if (--nodes_ <= 0) return false;
        const bool is_sound = raise(section, top);
        if (propagate() && is_sound && solve(begin, end)) return true;
        undo(mark);
        if (nodes_ <= 0) return false;
      }
    }
    slot = hash;
    return false;
  }

  const Boxes& boxes_;
  const Bytes capacity_;
  int32_t sections_ = 0;
  const std::vector<double>* preference_ = nullptr;
  int64_t nodes_ = 0;
  std::vector<std::vector<int32_t>> covers_;  // by section: boxes alive there
  std::vector<Bytes> initial_left_;
  std::vector<Bytes> top_, left_, next_;  // by section
  std::vector<Bytes> lowest_;             // by box: the highest top of its time
  std::vector<char> is_placed_, is_queued_;
  std::vector<int32_t> queue_;
  std::vector<uint64_t> waiting_hash_;  // by section: the boxes that begin there and wait
  std::vector<uint64_t> refuted_;       // states that were tried in full
  std::vector<Change> trail_;
  Offsets offsets_;
};

}  // namespace

SearchResult pack_search(const Boxes& boxes, Bytes capacity, int64_t& nodes) {
  std::vector<Bytes> load;
  for (const Box& box : boxes) {
    if (load.size() < static_cast<size_t>(box.upper)) load.resize(static_cast<size_t>(box.upper), 0);
    for (int32_t s = box.lower; s < box.upper; ++s) load[s] += box.size;
  }
  std::vector<std::vector<double>> preferences(4, std::vector<double>(boxes.size()));
  for (size_t i = 0; i < boxes.size(); ++i) {
    const double time = boxes[i].upper - boxes[i].lower;
    const auto size = static_cast<double>(boxes[i].size);
    Bytes most = 0;
    for (int32_t s = boxes[i].lower; s < boxes[i].upper; ++s) most = std::max(most, load[s]);
    preferences[0][i] = time + size * 1e-15;
    preferences[1][i] = time * size;
    preferences[2][i] = static_cast<double>(most) * 1e9 + time;
    preferences[3][i] = size + time * 1e-9;
  }
  constexpr size_t kMemory = size_t{1} << 19;
  Search search(boxes, capacity, kMemory);
  for (int64_t slice = 2000; nodes > 0; slice *= 2)
    for (const auto& preference : preferences) {
      int64_t left = std::min(slice, nodes);
      nodes -= left;
      const Verdict verdict = search.run(preference, left);
      nodes += std::max<int64_t>(left, 0);
      if (verdict == Verdict::Fits) return {verdict, search.offsets()};
      if (verdict == Verdict::Impossible) return {verdict, {}};
      if (nodes <= 0) break;
    }
  return {};
}

}  // namespace plimsoll
