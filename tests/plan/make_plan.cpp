#include "plan/make_plan.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "plan/check/check.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using testing::random_problem;
using testing::training_chain;

Plan must_plan(const Problem& problem, const Limits& limits) {
  auto answer = make_plan(problem, limits);
  if (const auto* shortfall = std::get_if<Shortfall>(&answer)) {
    ADD_FAILURE() << describe(problem, *shortfall);
    return {};
  }
  Plan plan = std::get<Plan>(std::move(answer));
  EXPECT_EQ(check(problem, plan, limits), "");
  return plan;
}

TEST(MakePlan, PlansNothing) {
  EXPECT_EQ(must_plan({}, {}).arena_bytes, 0);
  Builder b;
  b.variable("w", 100);
  b.buffer("x", BufferKind::Input, Tag::Data, 0, 10);
  EXPECT_EQ(must_plan(b.problem, {.batch = 3}).arena_bytes, 128 + 64);
}

TEST(MakePlan, ReusesTheSpaceOfTheDead) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 1000);
  const BufferId h1 = b.temporary("h1", 1000), h2 = b.temporary("h2", 1000), h3 = b.temporary("h3", 1000);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 1000);
  b.task("a", {x}, {h1});
  b.task("b", {h1}, {h2});
  b.task("c", {h2}, {h3});
  b.task("d", {h3}, {y});
  const Plan plan = must_plan(b.problem, {});
  EXPECT_EQ(plan.arena_bytes, 2 * 1024);
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound_bytes);
  for (Task& task : b.problem.tasks) task.may_share = {{0, 0}};
  EXPECT_EQ(must_plan(b.problem, {}).arena_bytes, 1024);
  Limits never_in_place;
  never_in_place.levers.in_place = false;
  EXPECT_EQ(must_plan(b.problem, never_in_place).arena_bytes, 2 * 1024);
}

// The task's own work is the fastest; a variant with less workspace is taken where the line asks for it.
TEST(MakePlan, TakesAVariantWhenTheLineAsksForIt) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 1024);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 1024);
  Task& task = b.task("loss", {x}, {y});
  task.workspace_fixed_bytes = 8192;
  Variant slim{task, "in tiles"};
  slim.workspace_fixed_bytes = 64;
  slim.fixed_ns = 1300;
  task.variants = {slim};
  const Plan wide = must_plan(b.problem, {.bytes = 10240});
  EXPECT_EQ(wide.actions[0].variant, -1);
  EXPECT_EQ(wide.predicted_ns, 1000);
  Limits tight{.bytes = 10239};
  const Plan narrow = must_plan(b.problem, tight);
  EXPECT_EQ(narrow.actions[0].variant, 0);
  EXPECT_EQ(narrow.arena_bytes, 2112);
  EXPECT_EQ(narrow.predicted_ns, 1300);
  EXPECT_EQ(narrow.unconstrained_ns, 1000);
  ASSERT_EQ(narrow.decisions.size(), 1U);
  EXPECT_EQ(narrow.decisions[0], (Decision{"in tiles at loss", 8128, 300}));
  const Tally tally = count_work(b.problem, narrow);
  EXPECT_EQ(tally.variants, 1);
  EXPECT_EQ(tally.variant_ns, 300);
  EXPECT_EQ(tally.reruns, 0);
  tight.levers.variants = false;
  EXPECT_EQ(std::get<Shortfall>(make_plan(b.problem, tight)).need_bytes, 10240);
}

// The gradient of an activation may read its output, so that its input, which nobody else reads, dies early.
TEST(MakePlan, AVariantMayReadSomethingElse) {
  Builder b;
  const BufferId in = b.buffer("in", BufferKind::Input, Tag::Data, 1024);
  const BufferId x = b.temporary("x", 1024), y = b.temporary("y", 1024), dy = b.temporary("dy", 1024);
  const BufferId dx = b.buffer("dx", BufferKind::Output, Tag::Activations, 1024);
  b.task("make", {in}, {x});
  b.task("relu", {x}, {y}).may_share = {{0, 0}};
  b.task("use", {y}, {dy}).workspace_fixed_bytes = 1024;
  Task& back = b.task("back", {dy, x}, {dx});
  Variant from_output{back, "from output"};
  from_output.reads = {dy, y};
  from_output.fixed_ns = 1100;
  back.variants = {from_output, from_output};
  Limits limits{.bytes = 3 * 1024};
  const Plan plan = must_plan(b.problem, limits);
  EXPECT_EQ(plan.actions[3].variant, 0);
  limits.bytes = 4 * 1024;
  EXPECT_EQ(must_plan(b.problem, limits).actions[3].variant, -1);
}

TEST(MakePlan, AWorkspaceIsAloneInItsAction) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 64);
  b.task("a", {x}, {y}).workspace_fixed_bytes = 1000;
  const Plan plan = must_plan(b.problem, {});
  EXPECT_EQ(plan.arena_bytes, 128 + 1024);
  EXPECT_EQ(plan.peak_by_tag[static_cast<size_t>(Tag::Workspace)], 1024);
}

TEST(MakePlan, UpdatesRunRightAfterTheirGradient) {
  constexpr int kLayers = 20;
  constexpr Bytes kWeight = 1 << 20, kRow = 1024;
  const Problem problem = training_chain(kLayers, kRow, kWeight);
  const Plan plan = must_plan(problem, {.batch = 16});
  // One gradient at a time, whatever the depth; activations are kept once, because relu works in place.
  EXPECT_EQ(plan.variable_bytes, kLayers * kWeight);
  EXPECT_LE(plan.arena_bytes, (kLayers + 1) * kWeight + (kLayers + 3) * 16 * kRow + 4 * KiB);
  EXPECT_GE(plan.unconstrained_bytes, 2 * kLayers * kWeight);
  EXPECT_EQ(plan.arena_bytes, plan.live_bytes) << "a chain packs without loss";
  EXPECT_EQ(std::accumulate(plan.peak_by_tag.begin(), plan.peak_by_tag.end(), Bytes{0}), plan.live_bytes);
}

TEST(MakePlan, OrderIsALever) {
  const Problem problem = training_chain(20, 1024, 1 << 20);
  Limits limits{.batch = 16};
  const Bytes chosen = must_plan(problem, limits).arena_bytes;
  limits.levers.order = false;
  const Plan given = must_plan(problem, limits);
  EXPECT_LT(chosen, given.arena_bytes);
  for (size_t s = 0; s < given.actions.size(); ++s) EXPECT_EQ(given.actions[s].task, static_cast<TaskId>(s));
}

TEST(MakePlan, RefusesWithWhatWouldFit) {
  const Problem problem = training_chain(5, 4096, 100'000);
  const Plan unlimited = must_plan(problem, {.batch = 8});
  Levers levers;
  levers.recompute = false;
  for (const Bytes bytes : {Bytes{0}, unlimited.arena_bytes / 2, unlimited.arena_bytes - 1}) {
    const auto answer = make_plan(problem, {.bytes = bytes, .batch = 8, .levers = levers});
    ASSERT_TRUE(std::holds_alternative<Shortfall>(answer));
    const auto& shortfall = std::get<Shortfall>(answer);
    EXPECT_EQ(shortfall.limit_bytes, bytes);
    EXPECT_EQ(shortfall.deficit_bytes, shortfall.need_bytes - bytes);
    EXPECT_LE(shortfall.lower_bound_bytes, shortfall.need_bytes);
    ASSERT_FALSE(shortfall.holders.empty());
    EXPECT_EQ(shortfall.holders[0].bytes, 100'032);
    EXPECT_THAT(describe(problem, shortfall), ::testing::StartsWith("does not fit: needs "));
    must_plan(problem, {.bytes = shortfall.need_bytes, .batch = 8, .levers = levers});  // what it names is true
  }
}

// Recomputing makes actions, and actions take memory: what is saved must be more than what they add.
TEST(MakePlan, StepsTakeRoomTooWhenTheyCount) {
  const Problem problem = training_chain(24, 4096, 1000);
  const Limits free_of_charge{.bytes = 0, .batch = 8};
  Limits counted = free_of_charge;
  counted.action_bytes = 2 * KiB;
  const auto need = [&](const Limits& limits) { return std::get<Shortfall>(make_plan(problem, limits)).need_bytes; };
  const Bytes lowest = need(free_of_charge), lowest_counted = need(counted);
  EXPECT_GT(lowest_counted, lowest);
  counted.bytes = lowest_counted;
  const Plan plan = must_plan(problem, counted);  // passes the check, which counts for itself
  EXPECT_GT(plan.actions.size(), problem.tasks.size());
  Limits roomy = free_of_charge;
  roomy.bytes = lowest;
  EXPECT_LT(plan.actions.size(), must_plan(problem, roomy).actions.size());
}

TEST(MakePlan, RefusesNonsense) {
  Builder b;
  b.task("a", {b.temporary("h", 10)}, {});
  EXPECT_THROW(make_plan(b.problem, {}), Error);
  EXPECT_THROW(make_plan({}, {.batch = 0}), Error);
  EXPECT_THROW(make_plan(training_chain(2, Bytes{1} << 50, 1), {.batch = 1 << 20}), Error);
}

TEST(MakePlan, RandomProblemsPassTheCheck) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Problem problem = random_problem(seed, 1 + static_cast<int>(seed % 60));
    const Limits limits{.batch = 1 + static_cast<int64_t>(seed % 5)};
    const Plan plan = must_plan(problem, limits);
    EXPECT_LE(plan.lower_bound_bytes, plan.live_bytes) << seed;
    EXPECT_LE(plan.live_bytes, plan.arena_bytes) << seed;
    EXPECT_LE(plan.live_bytes, plan.unconstrained_bytes) << seed;
    EXPECT_EQ(plan, must_plan(problem, limits)) << seed;
  }
}

TEST(MakePlan, ASmallerLineNeverPlansAHigherPeak) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const Problem problem = random_problem(1000 + seed, 60);
    Bytes last = must_plan(problem, {.batch = 2}).arena_bytes;
    const Bytes highest = last + 64;
    Bytes need = 0;
    for (Bytes bytes = highest; bytes > highest - highest / 20; bytes -= 1 + highest / 200) {
      const auto answer = make_plan(problem, {.bytes = bytes, .batch = 2});
      if (const auto* plan = std::get_if<Plan>(&answer)) {
        EXPECT_EQ(need, 0) << "fits below a line that did not";
        EXPECT_LE(plan->arena_bytes, std::min(bytes, last));
        last = plan->arena_bytes;
      } else {
        const Bytes needs = std::get<Shortfall>(answer).need_bytes;
        EXPECT_LE(needs, last);
        if (need == 0) need = must_plan(problem, {.bytes = needs, .batch = 2}).arena_bytes;
        EXPECT_EQ(needs, need) << "the smallest line is true, and the same whoever asks";
      }
    }
  }
}

TEST(MakePlan, AFasterPlanIsFoundOrThereIsNone) {
  const Problem problem = training_chain(6, 1000, 2000);
  const Problem* const problems[] = {&problem};
  const Bytes highest = must_plan(problem, {.batch = 32}).arena_bytes;
  int slower = 0;
  for (const Bytes percent : {100, 95, 90, 85, 80, 70}) {
    const Limits limits{.bytes = highest * percent / 100, .batch = 32};
    const auto best = choose_plan(problem, problems, limits).answer;
    const auto* plan = std::get_if<Plan>(&best);
    if (plan == nullptr) continue;
    slower += plan->predicted_ns > plan->unconstrained_ns ? 1 : 0;
    EXPECT_FALSE(choose_faster_plan(problem, problems, limits, plan->predicted_ns)) << percent;
    const auto faster = choose_faster_plan(problem, problems, limits, plan->predicted_ns * 1.01);
    ASSERT_TRUE(faster) << percent;
    EXPECT_EQ(std::get<Plan>(faster->answer).predicted_ns, plan->predicted_ns) << percent;
  }
  EXPECT_GT(slower, 0) << "no line was tight";
}

TEST(MakePlan, ASlowerPlanSaysWhatAFasterOneNeeds) {
  Problem problem = training_chain(8, 1000, 200);
  Bytes line = must_plan(problem, {.batch = 32}).arena_bytes - 1;
  int slower = 0;
  for (; line > 0; line -= line / 12) {
    const auto answer = make_plan(problem, {.bytes = line, .batch = 32});
    const auto* plan = std::get_if<Plan>(&answer);
    if (plan == nullptr) break;
    if (plan->predicted_ns <= plan->unconstrained_ns) continue;
    ++slower;
    ASSERT_GT(plan->next_faster_bytes, line) << "what fits would have been taken";
    const Plan below = must_plan(problem, {.bytes = plan->next_faster_bytes - 1, .batch = 32});
    EXPECT_EQ(below.predicted_ns, plan->predicted_ns) << "nothing faster was found below";
  }
  EXPECT_GT(slower, 2);
}

TEST(MakePlan, APlanInPartsNamesTheWholeBatchWhereNoPartsAreFaster) {
  const Problem whole = training_chain(6, 1000, 200);
  Problem micro_batches = whole;
  micro_batches.micro_batch = 8;
  for (Task& task : micro_batches.tasks) task.fixed_ns *= 2;
  const Problem* const problems[] = {&micro_batches};
  const Bytes all = must_plan(whole, {.batch = 32}).arena_bytes;
  const auto answer = choose_plan(whole, problems, {.bytes = all - 1, .batch = 32}).answer;
  ASSERT_TRUE(std::holds_alternative<Plan>(answer));
  EXPECT_GT(std::get<Plan>(answer).predicted_ns, std::get<Plan>(answer).unconstrained_ns);
  EXPECT_EQ(std::get<Plan>(answer).next_faster_bytes, all);
}

TEST(MakePlan, APlanInPartsIsComparedWithWhatTheWholeBatchWouldNeed) {
  const Problem whole = training_chain(8, 1000, 200);
  const Problem* const one[] = {&whole};
  const Bytes line = must_plan(whole, {.batch = 32}).arena_bytes * 3 / 4;
  const Choice choice = choose_plan(whole, one, {.bytes = line, .batch = 32});
  const auto& recomputing = std::get<Plan>(choice.answer);
  ASSERT_GT(recomputing.predicted_ns, recomputing.unconstrained_ns);
  ASSERT_FALSE(choice.alternatives.empty());
  for (const Alternative& other : choice.alternatives) {
    EXPECT_LT(other.ns, recomputing.predicted_ns);
    EXPECT_GT(other.bytes, line);
  }
  Plan in_parts;
  in_parts.next_faster_bytes = 1 * GiB;
  in_parts.predicted_ns = recomputing.predicted_ns;
  record_faster_alternative(in_parts, choice.alternatives);
  EXPECT_EQ(in_parts.next_faster_bytes, recomputing.next_faster_bytes);
  in_parts.predicted_ns = recomputing.unconstrained_ns;
  in_parts.next_faster_bytes = 0;
  record_faster_alternative(in_parts, choice.alternatives);
  EXPECT_EQ(in_parts.next_faster_bytes, 0) << "none is faster than a step without a line";
}

TEST(MakePlan, APlanWithoutALineNamesNoFasterOne) {
  const Plan plan = must_plan(training_chain(8, 1000, 200), {.batch = 32});
  EXPECT_EQ(plan.next_faster_bytes, 0);
  EXPECT_TRUE(plan.transfers.empty());
}

TEST(MakePlan, FiftyThousandTasks) {
  constexpr int kLayers = 8334;
  const Problem problem = training_chain(kLayers, 256, 4096);
  ASSERT_GE(problem.tasks.size(), 50'000);
  const Plan plan = must_plan(problem, {.batch = 4});
  EXPECT_EQ(plan.arena_bytes, plan.live_bytes);
  EXPECT_LE(plan.arena_bytes, plan.variable_bytes + (kLayers + 3) * 1024 + 4096 + 512 + 64);
}

}  // namespace
}  // namespace plimsoll::plan
