// The true optimum of problems with a handful of tasks, by trying everything: what the planner is measured against.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "plan/limits.h"
#include "plan/problems.h"

namespace plimsoll::testing {

using namespace plan;

// Values that are made, read and dropped, by tasks most of which may be recomputed. No variables and no updates.
inline Problem small_problem(uint64_t seed, int tasks, bool in_place) {
  Dice dice(seed);
  Builder b;
  b.problem.name = "small" + std::to_string(seed);
  std::vector<BufferId> values = {b.buffer("x", BufferKind::Input, Tag::Data, 64 * (1 + dice.below(8)))};
  for (int t = 0; t < tasks; ++t) {
    std::vector<BufferId> reads = {values[values.size() - 1 - dice.below(std::min<int64_t>(2, values.size()))]};
    if (const BufferId other = values[dice.below(static_cast<int64_t>(values.size()))]; other != reads[0])
      reads.push_back(other);
    const BufferKind kind = t == tasks - 1 ? BufferKind::Output : BufferKind::Temporary;
    values.push_back(b.buffer("v" + std::to_string(t), kind, Tag::Activations, 64 * (1 + dice.below(30))));
    Task& task = b.task("t" + std::to_string(t), reads, {values.back()});
    task.recomputable = dice.below(6) > 0;
    task.fixed_ns = static_cast<double>(100 * (1 + dice.below(20)));
    if (!in_place || dice.below(2) == 0) continue;
    task.may_share = {{0, 0}};
    b.problem.buffers[values.back()].fixed_bytes = b.problem.buffers[reads[0]].fixed_bytes;
  }
  return b.problem;
}

// Searches all states of (tasks that ran, values alive). Counts live bytes and packs nothing: a bound for every plan.
class Exhaustive {
 public:
  Exhaustive(const Problem& problem, const Levers& levers) : problem_(problem), levers_(levers) {
    for (size_t b = 0; b < problem.buffers.size(); ++b) {
      size_.push_back(placed_bytes(problem.buffers[b], 1));
      if (problem.buffers[b].kind == BufferKind::Output) outputs_ |= 1u << b;
      if (problem.buffers[b].kind == BufferKind::Input) given_ |= 1u << b;
    }
    for (const Task& task : problem.tasks) {
      Masks masks;
      for (const BufferId id : task.reads) masks.reads |= 1u << id;
      for (const BufferId id : task.writes) masks.writes |= 1u << id;
      masks_.push_back(masks);
    }
  }

  // The smallest line under which everything runs.
  Bytes smallest_line() const {
    return static_cast<Bytes>(
        search([](double so_far, double, Bytes bytes) { return std::max(so_far, static_cast<double>(bytes)); }));
  }

  // The least time under this line; infinite when there is no way.
  double least_ns(Bytes line) const {
    return search([line](double so_far, double ns, Bytes bytes) { return bytes <= line ? so_far + ns : kNever; });
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Masks {
    uint32_t reads = 0, writes = 0;
  };

  Bytes sum(uint32_t alive) const {
    Bytes bytes = 0;
    for (size_t b = 0; b < size_.size(); ++b)
      if (alive >> b & 1) bytes += size_[b];
    return bytes;
  }

  // The cheapest way from nothing done to all done; `extend` prices one more run with so many bytes alive.
  template <typename Extend>
  double search(const Extend& extend) const {
    const auto tasks = static_cast<uint32_t>(masks_.size()), buffers = static_cast<uint32_t>(size_.size());
    std::vector<double> best(size_t{1} << (tasks + buffers), kNever);
    using Entry = std::pair<double, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    const auto reach = [&](double price, uint32_t done, uint32_t alive) {
      const uint32_t state = done << buffers | alive;
      if (price >= best[state]) return;
      best[state] = price;
      queue.push({price, state});
    };
    reach(0, 0, given_);
    while (!queue.empty()) {
      const auto [price, state] = queue.top();
      queue.pop();
      const uint32_t done = state >> buffers, alive = state & ((1u << buffers) - 1);
      if (price > best[state]) continue;
      if (done == (1u << tasks) - 1 && (outputs_ & ~alive) == 0) return price;
      for (uint32_t b = 0; b < buffers; ++b)
        if ((alive >> b & 1) && done != 0) reach(price, done, alive & ~(1u << b));
      for (uint32_t t = 0; t < tasks; ++t) {
        if (!may_run(t, done, alive)) continue;
        const double ns = problem_.tasks[t].fixed_ns;
        const Bytes bytes = sum(alive | masks_[t].writes) + workspace_bytes(problem_.tasks[t], 1);
        reach(extend(price, ns, bytes), done | 1u << t, alive | masks_[t].writes);
        if (!levers_.in_place) continue;
        for (const InPlace& pair : problem_.tasks[t].may_share) {
          const BufferId from = problem_.tasks[t].reads[pair.read], to = problem_.tasks[t].writes[pair.write];
          if ((alive >> to & 1) || (outputs_ >> from & 1)) continue;
          reach(extend(price, ns, bytes - std::min(size_[from], size_[to])), done | 1u << t,
                (alive | masks_[t].writes) & ~(1u << from));
        }
      }
    }
    return kNever;
  }

  bool may_run(uint32_t t, uint32_t done, uint32_t alive) const {
    if (masks_[t].reads & ~alive) return false;
    if (done >> t & 1) return levers_.recompute && problem_.tasks[t].recomputable;
    return levers_.order || done == (1u << t) - 1;
  }

  const Problem& problem_;
  const Levers levers_;
  std::vector<Bytes> size_;
  std::vector<Masks> masks_;
  uint32_t outputs_ = 0, given_ = 0;
};

}  // namespace plimsoll::testing
