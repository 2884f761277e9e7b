#include "plan/pack/pack_search.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/random.h"

namespace plimsoll::plan {
namespace {

constexpr Bytes kNever = std::numeric_limits<Bytes>::max() / 4;

// Time is a row of sections. Each has a top, below which all is settled, and bytes still to come. A valley is a run of
// sections of equal top between higher walls: what lies at its floor must lie inside its walls.
//
//   top |#####        ####     In some section of the valley, the next box is one of those that cover it and fit
//       |#####........####     between the walls, or nothing starts here and the top rises: these are the branches.
//       |#####........####
//
// A branch raises tops; a box cannot lie below the tops of its time, and a top rises to the lowest box that can come
// next, until nothing moves. It fails when a top and the bytes to come pass the capacity.
// Which section to branch on. None is best everywhere; short tries of each find what long runs of one miss.
enum class Focus {
  FewestTightest,  // fewest boxes that can come next, then least slack
  FewestLowest,    // fewest boxes, then lowest floor
  Tightest,        // least slack, then fewest boxes
};

class OffsetSearch {
 public:
  OffsetSearch(const Boxes& boxes, Bytes capacity, size_t memory)
      : boxes_(boxes), capacity_(capacity), refuted_(memory, 0) {
    for (const Box& box : boxes_) sections_ = std::max(sections_, box.upper);
    const size_t sections = static_cast<size_t>(sections_);
    covers_.resize(sections);
    waiting_.assign(sections, 0);
    initial_left_.assign(sections, 0);
    for (size_t i = 0; i < boxes_.size(); ++i) {
      first_cell_.push_back(static_cast<int32_t>(cells_.size()) - boxes_[i].lower);
      for (int32_t s = boxes_[i].lower; s < boxes_[i].upper; ++s) {
        cells_.push_back(waiting_[s]++);
        covers_[s].push_back(static_cast<int32_t>(i));
        initial_left_[s] += boxes_[i].size;
      }
    }
    is_queued_.assign(sections, 0);
    is_stale_.assign(sections, 0);
  }

  // Places at most `slice` boxes, while the budget lasts.
  Feasibility run(Focus focus, const std::vector<double>& preference, int64_t slice, int64_t& budget) {
    focus_ = focus;
    preference_ = &preference;
    slice_ = slice;
    budget_ = budget;
    const size_t sections = static_cast<size_t>(sections_);
    top_.assign(sections, 0);
    next_.assign(sections, 0);
    left_ = initial_left_;
    lowest_.assign(boxes_.size(), 0);
    for (size_t k = 0; k < sections; ++k) waiting_[k] = static_cast<int32_t>(covers_[k].size());
    waiting_hash_.assign(sections, 0);
    for (size_t i = 0; i < boxes_.size(); ++i) waiting_hash_[boxes_[i].lower] ^= scramble_bits(i + 1);
    offsets_.assign(boxes_.size(), 0);
    trail_.clear();
    placed_.clear();
    queue_.clear();
    for (const Bytes left : left_)
      if (left > capacity_) return Feasibility::Impossible;
    const bool fits = solve_pieces(0, sections_);
    budget = budget_;
    if (fits) return Feasibility::Fits;
    return is_spent() ? Feasibility::Unknown : Feasibility::Impossible;
  }

  const Offsets& offsets() const { return offsets_; }

 private:
  struct Change {
    Bytes* where;
    Bytes old;
  };
  struct Mark {
    size_t changes, placed;
  };
  struct Choice {
    int32_t section = -1;
    Bytes slack = 0;
    std::pair<Bytes, Bytes> rank{kNever, kNever};
  };

  // A node of a large problem costs more than one of a small problem: what it looks at counts as further nodes.
  bool spend() {
    constexpr int64_t kVisitsPerNode = 4096;
    --slice_;
    budget_ -= 1 + visits_ / kVisitsPerNode;
    visits_ %= kVisitsPerNode;
    return !is_spent();
  }
  bool is_spent() const { return slice_ <= 0 || budget_ <= 0; }

  // The boxes of a section that are not placed yet.
  std::span<const int32_t> waiting(int32_t section) const {
    return {covers_[section].data(), static_cast<size_t>(waiting_[section])};
  }

  void set(Bytes& where, Bytes value) {
    trail_.push_back({&where, where});
    where = value;
  }

  Mark mark() const { return {trail_.size(), placed_.size()}; }

  void undo(const Mark& mark) {
    for (; trail_.size() > mark.changes; trail_.pop_back()) *trail_.back().where = trail_.back().old;
    for (; placed_.size() > mark.placed; placed_.pop_back()) {
      const Box& box = boxes_[placed_.back()];
      waiting_hash_[box.lower] ^= scramble_bits(static_cast<uint64_t>(placed_.back()) + 1);
      for (int32_t s = box.lower; s < box.upper; ++s) ++waiting_[s];
    }
  }

  bool raise(int32_t section, Bytes top) {
    if (top <= top_[section]) return true;
    set(top_[section], top);
    if (left_[section] == 0) return true;
    if (top + left_[section] > capacity_) return false;
    put(section, queue_, is_queued_);
    return true;
  }

  // Carries raised tops to the boxes that cover them and back to the tops, until nothing moves.
  bool propagate(bool is_sound) {
    while (is_sound && !(queue_.empty() && stale_.empty())) {
      if (!queue_.empty()) {
        const int32_t section = take(queue_, is_queued_);
        visits_ += waiting_[section];
        for (const int32_t i : waiting(section))
          if (lowest_[i] < top_[section]) lift(i, top_[section]);
      } else {
        is_sound = find_next(take(stale_, is_stale_));
      }
    }
    while (!queue_.empty()) take(queue_, is_queued_);
    while (!stale_.empty()) take(stale_, is_stale_);
    return is_sound;
  }

  // Sections where this box may have been the next one are checked later, once for all lifted boxes.
  void lift(int32_t index, Bytes lowest) {
    const Bytes old = lowest_[index];
    visits_ += boxes_[index].upper - boxes_[index].lower;
    set(lowest_[index], lowest);
    for (int32_t s = boxes_[index].lower; s < boxes_[index].upper; ++s)
      if (next_[s] == old) put(s, stale_, is_stale_);
  }

  static void put(int32_t section, std::vector<int32_t>& list, std::vector<char>& is_listed) {
    if (is_listed[section]) return;
    is_listed[section] = 1;
    list.push_back(section);
  }

  static int32_t take(std::vector<int32_t>& list, std::vector<char>& is_listed) {
    const int32_t section = list.back();
    list.pop_back();
    is_listed[section] = 0;
    return section;
  }

  // The lowest place where anything can come next in a section.
  bool find_next(int32_t section) {
    Bytes next = kNever;
    visits_ += waiting_[section];
    for (const int32_t i : waiting(section)) next = std::min(next, lowest_[i]);
    if (next != next_[section]) set(next_[section], next);
    return next == kNever || raise(section, next);
  }

  bool place(int32_t index) {
    const Box& box = boxes_[index];
    placed_.push_back(index);
    offsets_[index] = lowest_[index];
    waiting_hash_[box.lower] ^= scramble_bits(static_cast<uint64_t>(index) + 1);
    bool is_sound = true;
    for (int32_t s = box.lower; s < box.upper; ++s) {
      set(left_[s], left_[s] - box.size);
      // Placed boxes stand behind the waiting ones, last placed first, so that undoing only changes the count.
      int32_t& cell = cells_[first_cell_[index] + s];
      const int32_t last = --waiting_[s], other = covers_[s][last];
      std::swap(covers_[s][cell], covers_[s][last]);
      std::swap(cell, cells_[first_cell_[other] + s]);
    }
    for (int32_t s = box.lower; s < box.upper && is_sound; ++s) is_sound = raise(s, lowest_[index] + box.size);
    for (int32_t s = box.lower; s < box.upper && is_sound; ++s) put(s, stale_, is_stale_);
    return propagate(is_sound);
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
      pieces.emplace_back(s, stop);
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
    uint64_t hash = static_cast<uint64_t>(begin) * kGoldenRatio;
    for (int32_t s = begin; s < end; ++s)
      hash = (hash ^ static_cast<uint64_t>(top_[s]) ^ waiting_hash_[s]) * kGoldenRatio + (hash >> 29);
    return scramble_bits(hash) | 1;
  }

  // The section to branch on, in any valley.
  Choice choose(int32_t begin, int32_t end) {
    Choice best;
    visits_ += end - begin;
    for (int32_t s = begin; s < end;) {
      int32_t stop = s;
      while (stop < end && top_[stop] == top_[s]) ++stop;
      const bool is_valley = (s == begin || top_[s - 1] > top_[s]) && (stop == end || top_[stop] > top_[s]);
      for (int32_t k = s; is_valley && k < stop; ++k) {
        if (focus_ == Focus::Tightest && capacity_ - left_[k] - top_[k] > best.slack && best.section >= 0) continue;
        Bytes count = 0;
        visits_ += waiting_[k];
        for (const int32_t i : waiting(k)) count += lowest_[i] == top_[k];
        const Bytes slack = capacity_ - left_[k] - top_[k];
        count = count * 2 + (slack > 0 ? 1 : 0);
        const std::pair<Bytes, Bytes> rank = focus_ == Focus::FewestTightest ? std::pair(count, slack)
                                             : focus_ == Focus::FewestLowest ? std::pair(count, top_[k])
                                                                             : std::pair(slack, count);
        if (rank < best.rank) best = {k, slack, rank};
      }
      s = stop;
    }
    return best;
  }

  // When nothing starts at the floor of a section, the next box there lies on one that does not cover it.
  Bytes top_after_gap(int32_t section, int32_t begin, int32_t end) const {
    const Bytes floor = top_[section];
    Bytes lowest = kNever;
    for (const int32_t i : waiting(section)) {
      if (lowest_[i] > floor) {
        lowest = std::min(lowest, lowest_[i]);
        continue;
      }
      for (int32_t s = std::max(begin, boxes_[i].lower); s < std::min(end, boxes_[i].upper); ++s)
        for (const int32_t j : waiting(s))
          if (boxes_[j].upper <= section || boxes_[j].lower > section)
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
    for (const int32_t i : waiting(section))
      if (lowest_[i] == top_[section]) candidates.push_back(i);
    std::sort(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) {
      return std::pair(-(*preference_)[a], a) < std::pair(-(*preference_)[b], b);
    });
    const Mark before = mark();
    for (size_t c = 0; c < candidates.size(); ++c) {
      const int32_t i = candidates[c];
      const bool has_twin =
          std::any_of(candidates.begin(), candidates.begin() + static_cast<int64_t>(c), [&](int32_t j) {
            return boxes_[i].lower == boxes_[j].lower && boxes_[i].upper == boxes_[j].upper &&
                   boxes_[i].size == boxes_[j].size;
          });
      if (has_twin) continue;
      if (!spend()) return false;
      if (place(i) && solve_pieces(begin, end)) return true;
      undo(before);
      if (is_spent()) return false;
    }
    if (choice.slack > 0) {
      const Bytes top = top_after_gap(section, begin, end);
      if (top != kNever && top + left_[section] <= capacity_) {
        if (!spend()) return false;
        if (propagate(raise(section, top)) && solve(begin, end)) return true;
        undo(before);
        if (is_spent()) return false;
      }
    }
    slot = hash;
    return false;
  }

  const Boxes& boxes_;
  const Bytes capacity_;
  int32_t sections_ = 0;
  Focus focus_ = Focus::FewestTightest;
  const std::vector<double>* preference_ = nullptr;
  int64_t slice_ = 0, budget_ = 0, visits_ = 0;
  std::vector<std::vector<int32_t>> covers_;  // by section: boxes alive there, waiting ones first
  std::vector<int32_t> waiting_;              // by section: how many of them wait
  std::vector<int32_t> first_cell_, cells_;   // by box and section: where the box stands in `covers_`
  std::vector<Bytes> initial_left_;
  std::vector<Bytes> top_, left_, next_;  // by section
  std::vector<Bytes> lowest_;             // by box: the highest top of its time
  std::vector<int32_t> queue_, stale_;    // sections whose top rose; sections whose next box may have changed
  std::vector<char> is_queued_, is_stale_;
  std::vector<uint64_t> waiting_hash_;  // by section: the boxes that begin there and wait
  std::vector<uint64_t> refuted_;       // states that were tried in full
  std::vector<Change> trail_;
  std::vector<int32_t> placed_;
  Offsets offsets_;
};

// Which of the boxes that can come next is tried first, in several ways.
std::vector<std::vector<double>> make_preferences(const Boxes& boxes) {
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
    preferences[0][i] = time;
    preferences[1][i] = time * size;
    preferences[2][i] = static_cast<double>(most);
    preferences[3][i] = size;
  }
  return preferences;
}

}  // namespace

bool is_searchable(const Boxes& boxes) {
  constexpr int64_t kMostCells = 4'000'000;  // boxes x sections: what a try must hold and walk through
  constexpr size_t kMostBoxes = 3000;        // each is a level of recursion
  if (boxes.size() > kMostBoxes) return false;
  int64_t cells = 0;
  for (const Box& box : boxes) cells += box.upper - box.lower;
  return cells <= kMostCells;
}

SearchResult pack_search(const Boxes& boxes, Bytes capacity, int64_t& nodes) {
  const auto preferences = make_preferences(boxes);
  const auto memory = static_cast<size_t>(std::clamp<int64_t>(nodes / 4, 1024, int64_t{1} << 19));
  OffsetSearch search(boxes, capacity, memory);
  double slice = 3000 + 2.0 * static_cast<double>(boxes.size());
  uint64_t random = 1;
  std::vector<double> noisy(boxes.size());
  for (int round = 0; nodes > 0; ++round, slice *= 1.2)
    for (const auto& preference : preferences)
      for (const Focus focus : {Focus::FewestTightest, Focus::Tightest, Focus::FewestLowest}) {
        const double noise = round == 0 ? 0 : 0.25 * (1 + round % 3);
        for (size_t i = 0; i < noisy.size(); ++i) {
          random = mix_bits(random);
          noisy[i] = preference[i] * (1 + noise * static_cast<double>(random >> 11) * 0x1p-53);
        }
        const Feasibility feasibility = search.run(focus, noisy, static_cast<int64_t>(slice), nodes);
        if (feasibility == Feasibility::Fits) return {feasibility, search.offsets()};
        if (feasibility == Feasibility::Impossible) return {feasibility, {}};
        if (nodes <= 0) return {};
      }
  return {};
}

}  // namespace plimsoll::plan
