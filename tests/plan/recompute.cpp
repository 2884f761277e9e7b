#include "plan/search/recompute.h"

#include <gtest/gtest.h>

#include "plan/check/check.h"
#include "plan/exhaustive.h"
#include "plan/make_plan.h"
#include "plan/planned.h"
#include "plan/problems.h"
#include "plan/search/stays.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using testing::Dice;
using testing::must_plan;
using testing::random_problem;
using testing::smallest_line;
using testing::sweep;
using testing::training_chain;

// Random problems in which most tasks may be recomputed, with updates in between.
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
  EXPECT_EQ(plan.actions.size(), problem.tasks.size() + 1) << "one run more is enough";
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

// Layers whose backward reads input and output of each: every value is held until the way back.
Problem dense_chain(int layers) {
  Builder b;
  b.problem.name = "dense" + std::to_string(layers);
  std::vector<BufferId> values = {b.buffer("x", BufferKind::Input, Tag::Data, 1024)};
  for (int i = 1; i <= layers; ++i) {
    values.push_back(b.temporary("h" + std::to_string(i), 1024));
    b.task("f" + std::to_string(i), {values[i - 1]}, {values[i]}).recomputable = true;
  }
  BufferId gradient = b.temporary("g" + std::to_string(layers), 1024);
  b.task("loss", {values[layers]}, {gradient});
  for (int i = layers; i >= 1; --i) {
    const std::string n = std::to_string(i);
    const BufferId inner = b.temporary("d" + n, 1024), weight = b.temporary("w" + n, 64);
    b.task("relu_back" + n, {gradient, values[i]}, {inner}).may_share = {{0, 0}};
    gradient = b.temporary("g" + std::to_string(i - 1), 1024);
    b.task("back" + n, {inner}, {gradient});
    b.task("weight_back" + n, {values[i - 1], inner}, {weight});
    b.task("update" + n, {weight}, {}, {b.variable("v" + n, 64)});
  }
  return b.problem;
}

TEST(Recompute, ALongChainReturnsInRuns) {
  constexpr int kLayers = 2000;
  const Problem problem = dense_chain(kLayers);
  const Plan plain = must_plan(problem, {});
  const Bytes room = plain.arena_bytes - plain.variable_bytes;
  const auto reruns_at = [&](Bytes bytes) {
    const Plan plan = must_plan(problem, {.bytes = plain.variable_bytes + bytes});
    return static_cast<double>(plan.actions.size() - problem.tasks.size()) / kLayers;
  };
  EXPECT_LE(reruns_at(room / 2), 0.75) << "half of the values are made again, and a rung lies below the line";
  EXPECT_LE(reruns_at(room / 10), 1.0) << "each value is made again once at most";
  EXPECT_LE(smallest_line(problem, {}) - plain.variable_bytes, room / 50) << "with more than one level of runs";
}

TEST(Recompute, TheTopOfAUNeedsNoMoreThanItsWidestTask) {
  // The wide value is needed at the end, so the values between must not be recomputed beside a gradient.
  constexpr Bytes kUnit = 64 * 1024;
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId wide = b.temporary("wide", 2 * kUnit), first = b.temporary("first", kUnit),
                 second = b.temporary("second", kUnit), small = b.temporary("small", 64);
  const BufferId d_top = b.temporary("d_top", kUnit), d_second = b.temporary("d_second", kUnit),
                 d_middle = b.temporary("d_middle", kUnit), d_first = b.temporary("d_first", kUnit),
                 d_wide = b.buffer("d_wide", BufferKind::Output, Tag::Gradients, 64);
  for (const auto& [name, from, to] :
       {std::tuple("wide", x, wide), {"first", wide, first}, {"second", first, second}, {"head", second, small}})
    b.task(name, {from}, {to}).recomputable = true;
  b.task("head_back", {small}, {d_top}).recomputable = true;
  b.task("head_weight", {second, small}, {b.temporary("w0", 64)});
  b.task("second_relu", {d_top, second}, {d_second}).may_share = {{1, 0}};
  b.task("second_back", {d_second}, {d_middle}).recomputable = true;
  b.task("second_weight", {first, d_second}, {b.temporary("w1", 64)});
  b.task("first_relu", {d_middle, first}, {d_first}).may_share = {{1, 0}};
  b.task("first_weight", {wide, d_first}, {d_wide});
  sweep(b.problem, {}, 10);
  EXPECT_LE(smallest_line(b.problem, {}), 4 * kUnit + 1024);
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

// bench/plan_gap.cpp measures thousands, with each lever on and off.
void expect_close_to_the_optimum(const Levers& levers) {
  double line_gap = 0, time_gap = 0;
  int problems = 0, points = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Problem problem = testing::small_problem(seed, 8, levers.in_place);
    Limits limits;
    limits.levers = levers;
    const testing::Exhaustive optimum(problem, levers);
    const Plan plain = must_plan(problem, limits);
    const Bytes need = smallest_line(problem, limits), lowest = optimum.smallest_line();
    EXPECT_GE(need, lowest) << seed;
    line_gap += static_cast<double>(need) / static_cast<double>(lowest) - 1;
    ++problems;
    for (int i = 0; i < 4 && need < plain.arena_bytes; ++i) {
      limits.bytes = need + (plain.arena_bytes - need) * i / 4;
      const double found = must_plan(problem, limits).predicted_ns, least = optimum.least_ns(limits.bytes);
      EXPECT_GE(found, least) << seed;
      time_gap += found / least - 1;
      ++points;
    }
  }
  ASSERT_GT(points, 100);
  EXPECT_LT(line_gap / problems, 0.05);
  EXPECT_LT(time_gap / points, 0.05);
  printf("mean gap to the optimum: line %.2f %%, time %.2f %%\n", 100 * line_gap / problems, 100 * time_gap / points);
}

TEST(Recompute, IsCloseToTheOptimumOfSmallProblems) {
  Levers levers;
  levers.order = levers.in_place = false;
  expect_close_to_the_optimum(levers);
}

TEST(Recompute, IsCloseToTheOptimumWithAllLevers) { expect_close_to_the_optimum({}); }

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
}  // namespace plimsoll::plan
