#include "plan/search/recompute.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <queue>

#include "plan/search/drops.h"
#include "plan/search/stays.h"
#include "plan/search/waists.h"

namespace plimsoll::plan {
namespace {

struct Offer {
  double score = 0;  // bytes x stages over the target that it relieves, for each nanosecond
  Gap gap;
  bool operator<(const Offer& other) const {
    if (score != other.score) return score < other.score;
    return std::pair(gap.id, gap.after) > std::pair(other.gap.id, other.gap.after);
  }
};

enum class Start {
  Segments,  // whole runs of values first, each as long as recomputing it stays below the target
  LongRuns,  // the same, but stages in which a run is recomputed may stay as high as they were
  Pieces,    // value by value
  Waists,    // runs of values between places that few bytes cross
  Relaxed,   // below the target already: only takes drops back
};

class DropSearch {
 public:
  DropSearch(Drops drops, int32_t buffers, Bytes target, int64_t work)
      : drops_(std::move(drops)),
        buffers_(buffers),
        target_(target),
        most_work_(drops_.work() + work),
        work_to_take_back_(work / 2) {
    drops_.set_target(target);
  }

  // Moves its result out: a search runs once.
  Drops run(Start start) && {
    constexpr int kPasses = 40, kRounds = 12;
    const bool in_segments = start == Start::Segments || start == Start::LongRuns;
    for (int pass = 0; in_segments && pass < kPasses && is_over(); ++pass)
      if (!relieve_in_segments(start == Start::LongRuns)) break;
    for (int pass = 0; start == Start::Waists && pass < kPasses && is_over(); ++pass)
      if (!relieve_between_waists()) break;
    for (int round = 0; round < kRounds && is_over(); ++round) {
      bool helps = relieve_cleanly();
      if (is_over()) helps = lower_the_peak() || helps;
      if (!helps) break;
    }
    most_work_ = drops_.work() + listed_ + work_to_take_back_;
    take_back();
    return std::move(drops_);
  }

 private:
  bool is_over() const { return drops_.alive().highest() > target_ && !is_tired(); }
  bool is_tired() const { return drops_.work() + listed_ > most_work_; }

  // Gaps that relieve something according to `weigh`, scored by relief per nanosecond of the value's own task.
  template <typename Weigh>
  std::vector<Offer> list_offers(const Weigh& weigh) {
    std::vector<Offer> offers;
    listed_ += buffers_;
    for (BufferId id = 0; id < buffers_; ++id) {
      if (!drops_.is_remakeable(id) || drops_.size_of(id) == 0) continue;
      const std::vector<Need>& needs = drops_.needs(id);
      for (size_t i = 1; i < needs.size(); ++i) {
        if (needs[i].is_remade || needs[i].stage - needs[i - 1].stage < 2) continue;
        const int32_t remake = drops_.find_remake(id, i);
        if (remake < 0) continue;
        const double relief = weigh(id, needs[i - 1].stage + 1, remake - 1);
        if (relief > 0) offers.push_back({relief / (drops_.ns_of(id) + 1), {id, needs[i - 1].stage, needs[i].stage}});
      }
    }
    return offers;
  }

  std::vector<Offer> list_offers_at(int32_t stage) {
    const auto excess = static_cast<double>(drops_.alive().highest() - target_);
    return list_offers([&](BufferId id, int32_t first, int32_t last) {
      return first <= stage && stage <= last ? std::min(excess, static_cast<double>(drops_.size_of(id))) : 0.0;
    });
  }

  // Drops values with the most relief per nanosecond, unless that pushes another stage over the target.
  bool relieve_cleanly() {
    const std::vector<Bytes> alive = drops_.alive().values(drops_.stages());
    std::vector<int32_t> over(alive.size() + 1, 0);
    for (size_t s = 0; s < alive.size(); ++s) over[s + 1] = over[s] + (alive[s] > target_ ? 1 : 0);
    const auto weigh = [&](BufferId id, int32_t first, int32_t last) {
      if (first > last || over[last + 1] == over[first]) return 0.0;
      const Bytes excess = std::min(drops_.alive().highest(first, last) - target_, drops_.size_of(id));
      return excess <= 0 ? 0.0 : static_cast<double>(excess) * (over[last + 1] - over[first]);
    };
    std::priority_queue<Offer> queue(std::less<Offer>(), list_offers(weigh));
    bool helps = false;
    while (!queue.empty() && is_over()) {
      Offer offer = queue.top();
      queue.pop();
      const Gap& gap = offer.gap;
      const size_t need = drops_.find(gap);
      const int32_t remake = need == 0 ? -1 : drops_.find_remake(gap.id, need);
      const double relief = weigh(gap.id, gap.before + 1, remake - 1);
      if (relief <= 0) continue;
      constexpr double kAlike = 0.99;
      const double ns = drops_.extra_ns();
      const bool is_bounded = drops_.drop(gap.id, need);
      const double score = relief / (std::max(0.0, drops_.extra_ns() - ns) + 1);
      if (is_bounded && !queue.empty() && score < kAlike * std::min(queue.top().score, offer.score)) {
        drops_.undo();
        offer.score = score;  // costs more than estimated: tried again in the order of its real score
        queue.push(offer);
      } else if (is_bounded && drops_.stays_below(target_, LiveTree::kNothing)) {
        helps = true;
      } else {
        drops_.undo();
      }
    }
    return helps;
  }

  // Drops values alive at the peak. Other stages may pass the target, never the current peak.
  bool lower_the_peak() {
    bool helps = false;
    while (is_over()) {
      const int32_t peak = drops_.alive().find_highest();
      const Bytes height = drops_.alive().highest();
      if (keep_instead(peak, height)) {
        helps = true;
        continue;
      }
      std::vector<Offer> offers = list_offers_at(peak);
      std::sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) { return b < a; });
      bool is_lower = false;
      for (const Offer& offer : offers) {
        if (is_tired()) break;
        is_lower = drops_.drop(offer.gap.id, drops_.find(offer.gap)) && drops_.stays_below(target_, height) &&
                   drops_.alive().highest(peak, peak) < height;
        if (is_lower) break;
        drops_.undo();
      }
      if (!is_lower) break;
      helps = true;
    }
    return helps;
  }

  // Keeps a value that was recomputed in the highest stage, where holding it is lower than recomputing it.
  bool keep_instead(int32_t peak, Bytes height) {
    for (const auto& [id, need] : drops_.remade_in(peak)) {
      if (is_tired()) return false;
      if (drops_.keep(id, need) && drops_.stays_below(target_, height) && drops_.alive().highest(peak, peak) < height)
        return true;
      drops_.undo();
    }
    return false;
  }

  std::vector<Gap> gaps_by_maker(int32_t peak) {
    std::vector<Gap> gaps;
    for (const Offer& offer : list_offers_at(peak)) gaps.push_back(offer.gap);
    std::sort(gaps.begin(), gaps.end(), [&](const Gap& a, const Gap& b) {
      return std::pair(drops_.maker_of(a.id), a.id) < std::pair(drops_.maker_of(b.id), b.id);
    });
    return gaps;
  }

  // Drops values made between two waists, and keeps those that cross the second. Of several lengths of a run, takes the
  // one with the most relief per nanosecond: a long run may have to load its weights twice when it is recomputed.
  bool relieve_between_waists() {
    const int32_t peak = drops_.alive().find_highest();
    const std::vector<Gap> gaps = gaps_by_maker(peak);
    const std::vector<size_t> waists = find_waists(drops_, gaps, peak);
    const auto drop_between = [&](size_t first, size_t end) {
      std::vector<Gap> run;
      for (size_t i = waists[first]; i < waists[end]; ++i)
        if (!crosses(drops_, gaps, gaps[i], waists[end])) run.push_back(gaps[i]);
      return !run.empty() && drops_.drop_all(run) && drops_.stays_below(target_, LiveTree::kNothing) &&
             drops_.returns_below(target_);
    };
    const auto score_of = [&](size_t first, size_t end) {
      const Bytes height = drops_.alive().highest(peak, peak);
      const double ns = drops_.extra_ns();
      double score = 0;
      if (drop_between(first, end)) {
        const Bytes relief = std::min(height - drops_.alive().highest(peak, peak), height - target_);
        score = static_cast<double>(relief) / (std::max(0.0, drops_.extra_ns() - ns) + 1);
      }
      drops_.undo();
      return score;
    };
    bool helps = false;
    size_t usual = 1;
    for (size_t first = 0; first + 1 < waists.size() && is_over();) {
      size_t best = 0;
      double best_score = 0;
      for (size_t length = std::max<size_t>(usual / 2, 1); first + length < waists.size() && !is_tired(); length *= 2) {
        const double score = score_of(first, first + length);
        if (score > best_score) {
          best = length;
          best_score = score;
        } else if (best > 0 || length >= usual) {
          break;
        }
      }
      if (best > 0 && drop_between(first, first + best)) {
        helps = true;
        usual = best;
      } else if (best > 0) {
        drops_.undo();
      }
      first += std::max<size_t>(best, 1);
    }
    return helps;
  }

  // Drops whole runs of values made one after another, each run as long as recomputing it stays below the target, with
  // one value kept between runs. Early runs are recomputed late, when little else is alive, so they may be longer.
  bool relieve_in_segments(bool may_stay_high) {
    const int32_t peak = drops_.alive().find_highest();
    const std::vector<Gap> gaps = gaps_by_maker(peak);
    const auto works = [&](size_t first, size_t count) {
      if (drops_.drop_all(std::span(gaps).subspan(first, count)) && drops_.stays_below(target_, LiveTree::kNothing) &&
          (may_stay_high || drops_.returns_below(target_)))
        return true;
      drops_.undo();
      return false;
    };
    // A run need not relieve more than the excess, and can't be recomputed when it is larger than the target.
    const auto sensible = [&](size_t first) {
      const Bytes excess = drops_.alive().highest(peak, peak) - target_;
      size_t end = first;
      for (Bytes bytes = 0; end < gaps.size() && bytes < excess; ++end) {
        bytes += drops_.size_of(gaps[end].id);
        if (bytes > target_) break;
      }
      return std::max<size_t>(end - first, 1);
    };
    bool helps = false;
    size_t first = 0, count = gaps.size();
    while (first < gaps.size() && is_over()) {
      count = std::min(count, may_stay_high ? gaps.size() - first : sensible(first));
      while (count > 0 && !works(first, count) && !is_tired()) count -= (count + 7) / 8;
      helps = helps || count > 0;
      first += count + 1;
      count += count / 4 + 1;
    }
    return helps;
  }

  // Takes back drops that are not needed, those of the most expensive values first.
  void take_back() {
    const Bytes bound = std::max(target_, drops_.alive().highest());
    drops_.set_target(bound);
    std::vector<Offer> offers;
    for (BufferId id = 0; id < buffers_; ++id) {
      const std::vector<Need>& needs = drops_.needs(id);
      for (size_t i = 1; i < needs.size(); ++i)
        if (needs[i].is_remade)
          offers.push_back({drops_.ns_of(id) / (static_cast<double>(drops_.size_of(id)) + 1), {id, 0, needs[i].stage}});
    }
    std::sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) { return b < a; });
    for (const Offer& offer : offers) {
      if (is_tired()) break;
      const std::vector<Need>& needs = drops_.needs(offer.gap.id);
      const auto at = std::lower_bound(needs.begin(), needs.end(), offer.gap.after,
                                       [](const Need& need, int32_t stage) { return need.stage < stage; });
      if (at == needs.end() || at->stage != offer.gap.after || !at->is_remade) continue;
      const double ns = drops_.extra_ns();
      const bool is_good = drops_.keep(offer.gap.id, static_cast<size_t>(at - needs.begin())) &&
                           drops_.extra_ns() < ns && drops_.stays_below(bound, LiveTree::kNothing);
      if (!is_good) drops_.undo();
    }
  }

  Drops drops_;
  const int32_t buffers_;
  const Bytes target_;
  int64_t most_work_;
  const int64_t work_to_take_back_;
  int64_t listed_ = 0;  // gaps looked at
};

// Searches for a fixed ladder of falling targets. Each is searched from the plain order and from the result of the
// target above; then upwards again, where each target takes back drops of the one below it.
class Ladder {
 public:
  Ladder(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place, int64_t batch)
      : problem_(problem), sizes_(sizes), in_place_(in_place), plain_(problem, sizes, order, in_place, batch) {}

  std::vector<Schedule> run(Bytes floor_bytes, Effort effort) {
    const Bytes highest = plain_.alive().highest(), floor = std::max<Bytes>(floor_bytes - sizes_.variables, 1);
    if (plain_.stages() == 0 || highest <= floor) return {};
    plan_effort(effort);
    std::vector<Drops> best;
    for (int k = 1; k <= rungs_; ++k) {
      const double share =
          std::pow(static_cast<double>(floor) / static_cast<double>(highest), static_cast<double>(k) / rungs_);
      const auto target = k == rungs_ ? floor : static_cast<Bytes>(static_cast<double>(highest) * share);
      targets_.push_back(target);
      // Large problems: fewer ways to start, and no lower targets once a search ends higher than the one before.
      if (is_large_) {
        best.push_back(search(plain_, target, Start::Waists));
        if (best.back().alive().highest() > target)
          take_better(best.back(), search(plain_, target, Start::Segments), target);
        if (k > 1 && best.back().alive().highest() > best[best.size() - 2].alive().highest()) break;
        continue;
      }
      best.push_back(search_rung(best.empty() ? nullptr : &best.back(), target, effort == Effort::Quick));
    }
    climb(std::move(best), highest);
    return std::move(schedules_);
  }

 private:
  static constexpr int64_t kWork = 1'000'000, kQuickWork = 600'000, kWorkOfLarge = 12'000'000;

  void plan_effort(Effort effort) {
    constexpr int kFewestRungs = 16, kMostRungs = 32, kQuickRungs = 8;
    const int most = std::clamp(24'000 / plain_.stages(), kFewestRungs, kMostRungs);
    is_large_ = most == kFewestRungs;
    const bool is_quick = effort == Effort::Quick;
    rungs_ = is_quick ? kQuickRungs : most;
    work_ = (is_large_ ? kWorkOfLarge : is_quick ? kQuickWork : kWork) / most;
  }

  // From the lowest target up again in small steps, each of which takes back drops of the one below it. So a later line
  // is used up to a small rest, and lines near each other get similar plans.
  void climb(std::vector<Drops> best, Bytes highest) {
    constexpr double kStep = 1.02;
    constexpr int kMostSteps = 400'000;  // times stages
    const int most = std::max(kMostSteps / plain_.stages(), 1) / static_cast<int>(best.size()) + 1;
    Drops state = std::move(best.back());
    for (auto k = static_cast<int>(best.size()) - 2; k >= -1; --k) {
      const auto low = static_cast<double>(std::max(state.alive().highest(), targets_[k + 1]));
      const auto high = static_cast<double>(k >= 0 ? targets_[k] : highest - 1);
      const int actions = std::clamp(static_cast<int>(std::log(high / low) / std::log(kStep)), 1, most);
      for (int i = 1; i <= actions && low < high; ++i)
        state =
            search(std::move(state), static_cast<Bytes>(low * std::pow(high / low, static_cast<double>(i) / actions)),
                   Start::Relaxed);
      if (k >= 0) take_better(state, std::move(best[k]), targets_[k]);
    }
  }

  // From the result of the target above, and from the plain order in those ways that have not missed too many targets.
  Drops search_rung(const Drops* above, Bytes target, bool is_quick) {
    std::optional<Drops> best;
    const auto take = [&](Drops found) {
      if (best)
        take_better(*best, std::move(found), target);
      else
        best = std::move(found);
    };
    if (above != nullptr) take(search(*above, target, Start::Pieces));
    for (const Start start : {Start::Segments, Start::LongRuns, Start::Pieces}) {
      int& losses = losses_[static_cast<size_t>(start)];
      if (losses == kMostLosses || (is_quick && start != Start::Segments)) continue;
      Drops found = search(plain_, target, start);
      losses = found.alive().highest() > target ? losses + 1 : 0;
      take(std::move(found));
    }
    return std::move(*best);
  }

  Drops search(Drops from, Bytes target, Start start) {
    Drops drops = DropSearch(std::move(from), static_cast<int32_t>(problem_.buffers.size()), target, work_).run(start);
    Schedule schedule{drops.actions(), 0, drops.extra_ns()};
    schedule.peak_bytes = find_stays(problem_, sizes_, schedule.actions, in_place_).peak_bytes;
    schedules_.push_back(std::move(schedule));
    return drops;
  }

  // Keeps the faster of two that are below the target, else the lower one.
  static void take_better(Drops& best, Drops&& other, Bytes target) {
    const auto key = [&](const Drops& drops) {
      return std::pair(std::max(drops.alive().highest(), target), drops.extra_ns());
    };
    if (key(other) < key(best)) best = std::move(other);
  }

  const Problem& problem_;
  const Sizes& sizes_;
  const bool in_place_;
  const Drops plain_;
  int64_t work_ = 0;
  int rungs_ = 0;
  bool is_large_ = false;
  static constexpr int kMostLosses = 2;
  std::array<int, 3> losses_{};  // by Start from the plain order: targets missed one after another
  std::vector<Bytes> targets_;
  std::vector<Schedule> schedules_;
};

}  // namespace

std::vector<Schedule> propose_schedules(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order,
                                        bool in_place, int64_t batch, Bytes floor_bytes, Effort effort) {
  return Ladder(problem, sizes, order, in_place, batch).run(floor_bytes, effort);
}

}  // namespace plimsoll::plan
