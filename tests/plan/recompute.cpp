#include "plan/recompute.h"

#include <limits>
#include <map>
#include <queue>

#include <gtest/gtest.h>

#include "plan/check.h"
#include "plan/make_plan.h"
#include "plan/planned.h"
#include "plan/problems.h"
#include "plan/stays.h"

namespace plimsoll {
namespace {

using testing::Builder;
using testing::Dice;
using testing::must_plan;
using testing::random_problem;
using testing::smallest_line;
using testing::sweep;
using testing::training_chain;

// Random problems in which most tasks may run again, with updates in between.
Problem random_recomputable(uint64_t seed, int tasks) {
  Problem problem = random_problem(seed, tasks);
  Dice dice(seed + 77);
  for (Task& task : problem.tasks) task.recomputable = dice.below(5) > 0;
  return problem;
}

// forward f1..fn, then backward from the top: b_i reads what f_i read and the gradient.
Problem plain_chain(int layers, Bytes bytes) {
  Builder b;
  b.problem.name = "layers" + std::to_string(layers);
  std::vector<BufferId> values = {b.buffer("x", BufferKind::Input, Tag::Data, 64)};
  for (int i = 1; i <= layers; ++i) {
    values.push_back(b.temporary("h" + std::to_string(i), bytes));
    b.task("f" + std::to_string(i), {values[i - 1]}, {values[i]}).recomputable = true;
  }
  BufferId gradient = b.temporary("g" + std::to_string(layers), 64);
  b.task("loss", {values[layers]}, {gradient});
  for (int i = layers; i >= 1; --i) {
    const BufferId next =
        i == 1 ? b.buffer("g0", BufferKind::Output, Tag::Gradients, 64) : b.temporary("g" + std::to_string(i - 1), 64);
    b.task("b" + std::to_string(i), {values[i - 1], gradient}, {next});
    gradient = next;
  }
  return b.problem;
}

TEST(Recompute, DropsOneValueForOneRun) {
  const Problem problem = plain_chain(3, 1024);
  const Plan plain = must_plan(problem, {});
  EXPECT_EQ(plain.live_bytes, 3 * 1024 + 64 + 64);
  const Plan plan = must_plan(problem, {.bytes = plain.arena_bytes - 1});
  EXPECT_EQ(plan.steps.size(), problem.tasks.size() + 1) << "one run more is enough";
  EXPECT_EQ(plan.predicted_ns, plan.unconstrained_ns + 1000);
  ASSERT_FALSE(plan.decisions.empty());
  EXPECT_EQ(plan.decisions.back().what, "recompute h1");
  EXPECT_EQ(plan.decisions.back().bytes_saved, 1024);
  EXPECT_EQ(plan.decisions.back().ns_paid, 1000);
  Limits off{.bytes = plain.arena_bytes - 1};
  off.levers.recompute = false;
  EXPECT_TRUE(std::holds_alternative<Shortfall>(make_plan(problem, off)));
}

TEST(Recompute, AChainNeedsEachValueOnlyOnceMore) {
  // With room for k values a chain of k (k + 1) / 2 layers needs no second rerun.
  const Problem problem = plain_chain(40, 4096);
  const Bytes room = must_plan(problem, {}).arena_bytes * 12 / 40;
  const Plan plan = must_plan(problem, {.bytes = room});
  EXPECT_LE(plan.predicted_ns - plan.unconstrained_ns, 40 * 1000);
  EXPECT_GE(plan.predicted_ns - plan.unconstrained_ns, 28 * 1000);
  EXPECT_LE(smallest_line(problem, {}), 5 * 4096);
}

TEST(Recompute, GoesAroundResiduals) {
  Builder b;
  b.problem.name = "residual";
  std::vector<BufferId> sums = {b.buffer("x", BufferKind::Input, Tag::Data, 4096)};
  std::vector<BufferId> inner;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    inner.push_back(b.temporary("inner" + n, 4096));
    b.task("branch" + n, {sums.back()}, {inner.back()}).recomputable = true;
    const BufferId sum = b.temporary("sum" + n, 4096);
    Task& add = b.task("add" + n, {sums.back(), inner.back()}, {sum});
    add.recomputable = true;
    add.fixed_ns = 10;
    sums.push_back(sum);
  }
  BufferId gradient = b.temporary("g6", 4096);
  b.task("loss", {sums.back()}, {gradient});
  for (int i = 5; i >= 0; --i) {
    const BufferId next =
        i > 0 ? b.temporary("g" + std::to_string(i), 4096) : b.buffer("g0", BufferKind::Output, Tag::Gradients, 4096);
    b.task("back" + std::to_string(i), {gradient, inner[i], sums[i]}, {next});
    gradient = next;
  }
  sweep(b.problem, {}, 20);
  const Plan plain = must_plan(b.problem, {});
  const Plan plan = must_plan(b.problem, {.bytes = plain.arena_bytes - 2 * 4096});
  EXPECT_LE(plan.predicted_ns, plan.unconstrained_ns + 100) << "sums are cheap to make again while branches are kept";
  EXPECT_LT(smallest_line(b.problem, {}), plain.arena_bytes * 6 / 10);
}

TEST(Recompute, NeverReadsAWeightThatWasUpdated) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64), w = b.variable("w", 64);
  const BufferId h = b.temporary("h", 1 << 20), big = b.temporary("big", 1 << 20), small = b.temporary("small", 64),
                 less = b.temporary("less", 64);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 64);
  b.task("make_h", {x, w}, {h}).recomputable = true;
  b.task("use_h", {h}, {small});
  b.task("update", {small}, {}, {w});
  b.task("make_big", {x, w}, {big});
  b.task("shrink", {big}, {less}).recomputable = true;
  b.task("end", {h, small, less}, {y});
  const Bytes plain = must_plan(b.problem, {}).arena_bytes;
  EXPECT_EQ(smallest_line(b.problem, {}), plain) << "h cannot come back: its weight is gone";
  b.problem.tasks[2].updates.clear();
  EXPECT_LT(smallest_line(b.problem, {}), plain);
}

TEST(Recompute, ARerunWritesAllItsOutputs) {
  Builder b;
  b.problem.name = "outputs";
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId y = b.temporary("y", 4096), index = b.temporary("index", 1024), z = b.temporary("z", 64);
  const BufferId big = b.temporary("big", 8192), out = b.buffer("out", BufferKind::Output, Tag::Eager, 64);
  b.task("pool", {x}, {y, index}).recomputable = true;
  b.task("use", {y}, {z});
  b.task("grow", {z}, {big});
  b.task("shrink", {big, z}, {out});
  b.task("end", {y, out}, {b.temporary("e", 64)});
  b.task("unpool", {index, out}, {b.temporary("u", 64)});
  sweep(b.problem, {}, 10);
  const Bytes need = smallest_line(b.problem, {});
  EXPECT_LE(need, 8192 + 4 * 64) << "both are gone while the big one is there";
  EXPECT_EQ(must_plan(b.problem, {.bytes = need}).predicted_ns, 7000) << "and one run brings both back";
}

TEST(Recompute, RandomProblemsKeepTheLaws) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Problem problem = random_recomputable(seed, 5 + static_cast<int>(seed % 50));
    Limits limits{.batch = 1 + static_cast<int64_t>(seed % 4), .pack_nodes = 20'000};
    limits.levers.in_place = seed % 3 != 0;
    limits.levers.order = seed % 5 != 0;
    sweep(problem, limits, 8);
  }
  sweep(training_chain(12, 1024, 256), {.batch = 3, .pack_nodes = 20'000}, 12);
}

TEST(Recompute, TheSameProblemIsPlannedTheSameWay) {
  const Problem problem = training_chain(12, 1024, 256);
  const Bytes line = must_plan(problem, {.batch = 3}).arena_bytes * 2 / 3;
  EXPECT_EQ(must_plan(problem, {.bytes = line, .batch = 3}), must_plan(problem, {.bytes = line, .batch = 3}));
}

// The least time for a line, over all ways to run tasks again and to drop values, in the given order.
double find_optimum(const Problem& problem, Bytes line) {
  using State = std::pair<int32_t, uint32_t>;  // the next task of the order, and what is alive
  const auto tasks = static_cast<int32_t>(problem.tasks.size());
  std::vector<Bytes> size;
  uint32_t outputs = 0, given = 0;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    size.push_back(placed_bytes(problem.buffers[b], 1));
    if (problem.buffers[b].kind == BufferKind::Output) outputs |= 1u << b;
    if (problem.buffers[b].kind == BufferKind::Input) given |= 1u << b;
  }
  std::map<State, double> best;
  using Entry = std::pair<double, State>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto reach = [&](double ns, State state) {
    const auto [at, is_found] = best.emplace(state, ns);
    if (!is_found && at->second <= ns) return;
    at->second = ns;
    queue.push({ns, state});
  };
  reach(0, {0, given});
  while (!queue.empty()) {
    const auto [ns, state] = queue.top();
    queue.pop();
    const auto [next, alive] = state;
    if (ns > best[state]) continue;
    if (next == tasks && (outputs & ~alive) == 0) return ns;
    for (uint32_t b = 0; b < size.size(); ++b)
      if ((alive >> b & 1) && next > 0) reach(ns, {next, alive & ~(1u << b)});
    for (int32_t t = 0; t <= std::min(next, tasks - 1); ++t) {
      const Task& task = problem.tasks[t];
      if (t < next && !task.recomputable) continue;
      uint32_t reads = 0, writes = 0;
      for (const BufferId id : task.reads) reads |= 1u << id;
      for (const BufferId id : task.writes) writes |= 1u << id;
      if (reads & ~alive) continue;
      Bytes bytes = scratch_bytes(task, 1);
      for (uint32_t b = 0; b < size.size(); ++b)
        if ((alive | writes) >> b & 1) bytes += size[b];
      if (bytes <= line) reach(ns + task.fixed_ns, {std::max(next, t + 1), alive | writes});
    }
  }
  return std::numeric_limits<double>::infinity();
}

TEST(Recompute, IsCloseToTheOptimumOfSmallProblems) {
  double line_gap = 0, time_gap = 0;
  int problems = 0, points = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Dice dice(seed);
    Builder b;
    std::vector<BufferId> values = {b.buffer("x", BufferKind::Input, Tag::Data, 64 * (1 + dice.below(8)))};
    for (int t = 0; t < 8; ++t) {
      std::vector<BufferId> reads = {values[values.size() - 1 - dice.below(std::min<int64_t>(2, values.size()))]};
      if (const BufferId other = values[dice.below(static_cast<int64_t>(values.size()))]; other != reads[0])
        reads.push_back(other);
      const BufferKind kind = t == 7 ? BufferKind::Output : BufferKind::Temporary;
      values.push_back(b.buffer("v" + std::to_string(t), kind, Tag::Activations, 64 * (1 + dice.below(30))));
      Task& task = b.task("t" + std::to_string(t), reads, {values.back()});
      task.recomputable = dice.below(6) > 0;
      task.fixed_ns = static_cast<double>(100 * (1 + dice.below(20)));
    }
    Limits limits;
    limits.levers.order = limits.levers.in_place = false;
    const Plan plain = must_plan(b.problem, limits);
    const Bytes need = smallest_line(b.problem, limits);
    Bytes lowest = need;  // the smallest line of the optimum
    while (find_optimum(b.problem, lowest - 64) < 1e18) lowest -= 64;
    line_gap += static_cast<double>(need) / static_cast<double>(lowest) - 1;
    ++problems;
    for (int i = 0; i < 4 && need < plain.arena_bytes; ++i) {
      limits.bytes = need + (plain.arena_bytes - need) * i / 4;
      const double found = must_plan(b.problem, limits).predicted_ns, optimum = find_optimum(b.problem, limits.bytes);
      EXPECT_GE(found, optimum) << seed;
      time_gap += found / optimum - 1;
      ++points;
    }
  }
  RecordProperty("mean_line_gap_percent", std::to_string(100 * line_gap / problems));
  RecordProperty("mean_time_gap_percent", std::to_string(100 * time_gap / points));
  EXPECT_LT(line_gap / problems, 0.05);
  EXPECT_LT(time_gap / points, 0.05);
  printf("mean gap to the optimum: line %.2f %%, time %.2f %%\n", 100 * line_gap / problems, 100 * time_gap / points);
}

TEST(Recompute, FiftyThousandTasksInATenth) {
  constexpr int kLayers = 8334;
  const Problem problem = training_chain(kLayers, 256, 64);
  ASSERT_GE(problem.tasks.size(), 50'000);
  const Plan plain = must_plan(problem, {.batch = 4});
  const Bytes line = plain.variable_bytes + (plain.arena_bytes - plain.variable_bytes) / 10;
  const Plan plan = must_plan(problem, {.bytes = line, .batch = 4});
  EXPECT_LE(plan.predicted_ns, 1.4 * plan.unconstrained_ns);
}

}  // namespace
}  // namespace plimsoll
