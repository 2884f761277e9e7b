#include "plan/search/order.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using testing::random_problem;
using testing::training_chain;

bool is_valid(const Precedence& precedence, const std::vector<TaskId>& order) {
  std::vector<int32_t> position(order.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int32_t>(i);
  for (size_t t = 0; t < order.size(); ++t)
    for (int32_t k = precedence.first_successor[t]; k < precedence.first_successor[t + 1]; ++k)
      if (position[t] >= position[precedence.successors[k]]) return false;
  return std::count(position.begin(), position.end(), -1) == 0;
}

Bytes exhaustive_peak(const Problem& problem, const Sizes& sizes, const Precedence& precedence) {
  const size_t tasks = problem.tasks.size();
  Bytes best = std::numeric_limits<Bytes>::max();
  std::vector<TaskId> order;
  std::vector<bool> is_done(tasks, false);
  const std::function<void()> extend = [&] {
    if (order.size() == tasks) {
      best = std::min(best, make_timeline(problem, sizes, order, true).peak_bytes);
      return;
    }
    for (size_t t = 0; t < tasks; ++t) {
      if (is_done[t]) continue;
      bool is_ready = true;
      for (int32_t k = precedence.first_predecessor[t]; k < precedence.first_predecessor[t + 1]; ++k)
        is_ready = is_ready && is_done[precedence.predecessors[k]];
      if (!is_ready) continue;
      is_done[t] = true;
      order.push_back(static_cast<TaskId>(t));
      extend();
      order.pop_back();
      is_done[t] = false;
    }
  };
  extend();
  return best;
}

TEST(Order, PrecedenceKnowsReadsWritesAndOverwrites) {
  Builder b;
  const BufferId w = b.variable("w", 64), h = b.temporary("h", 64);
  b.task("read", {w}, {h});
  b.task("also_reads", {w}, {});
  b.task("update", {h}, {}, {w});
  b.task("reads_new", {w}, {});
  const Precedence p = find_precedence(b.problem);
  const auto before = [&](TaskId t) {
    return std::vector<TaskId>(p.predecessors.begin() + p.first_predecessor[t],
                               p.predecessors.begin() + p.first_predecessor[t + 1]);
  };
  EXPECT_EQ(before(2), (std::vector<TaskId>{0, 1}));
  EXPECT_EQ(before(3), (std::vector<TaskId>{2}));
  EXPECT_TRUE(before(1).empty());
}

TEST(Order, IsValidAndNeverWorseThanTheProgram) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Problem problem = random_problem(seed, 80);
    const Sizes sizes = measure(problem, 2, 2);
    const std::vector<TaskId> order = choose_order(problem, sizes, true);
    EXPECT_TRUE(is_valid(find_precedence(problem), order)) << seed;
    std::vector<TaskId> given(problem.tasks.size());
    std::iota(given.begin(), given.end(), 0);
    EXPECT_LE(make_timeline(problem, sizes, order, true).peak_bytes,
              make_timeline(problem, sizes, given, true).peak_bytes);
  }
}

TEST(Order, IsCloseToTheBestOfAllOrders) {
  double ratios = 0;
  constexpr int kProblems = 150;
  for (uint64_t seed = 0; seed < kProblems; ++seed) {
    const Problem problem = random_problem(5000 + seed, 8);
    const Sizes sizes = measure(problem, 1, 1);
    const Bytes best = exhaustive_peak(problem, sizes, find_precedence(problem));
    const Bytes found = make_timeline(problem, sizes, choose_order(problem, sizes, true), true).peak_bytes;
    EXPECT_GE(found, best);
    ratios += best == 0 ? 1 : static_cast<double>(found) / static_cast<double>(best);
  }
  RecordProperty("mean_ratio", std::to_string(ratios / kProblems));
  EXPECT_LE(ratios / kProblems, 1.01);
}

TEST(Order, AGradientDiesRightAfterItsUpdate) {
  const Problem problem = training_chain(10, 64, 1 << 16);
  const Sizes sizes = measure(problem, 4, 4);
  const std::vector<TaskId> order = choose_order(problem, sizes, true);
  const Timeline timeline = make_timeline(problem, sizes, order, true);
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].tag != Tag::Gradients) continue;
    EXPECT_EQ(timeline.last_action[b], timeline.first_action[b] + 1) << problem.buffers[b].name;
  }
}

}  // namespace
}  // namespace plimsoll::plan
