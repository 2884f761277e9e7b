#include "plan/check/check.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/make_plan.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using ::testing::HasSubstr;
using testing::load_action;
using testing::save_action;
using testing::training_chain;

// x -> a -> h -> b -> g -> c -> y, with a weight that c's follower updates.
Problem small_problem() {
  Builder b;
  const BufferId w = b.variable("w", 4096);
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 1024);
  const BufferId h = b.temporary("h", 0, 1024), g = b.temporary("g", 0, 1024);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 0, 1024);
  b.task("a", {x, w}, {h}).workspace_fixed_bytes = 64;
  b.task("b", {h}, {g});
  b.task("c", {g, h}, {y});
  b.task("sgd", {y}, {}, {w});
  for (Task& task : b.problem.tasks) task.recomputable = true;
  b.problem.tasks[3].recomputable = false;
  return b.problem;
}

constexpr Bytes kW = 0, kX = 4096, kH = 8192, kG = 12288, kY = 16384, kEnd = 20480;

// Nothing shares a place: every fault below is one change away.
Plan roomy_plan() {
  Plan plan;
  plan.arena_bytes = kEnd + 64;
  plan.variable_bytes = 4096;
  plan.predicted_ns = 1e6;
  plan.micro_batches = {4};
  plan.actions = {{.task = 0}, {.task = 1}, {.task = 2}, {.task = 3}};
  plan.lives = {{kWorkspace, 0, 0, kEnd, 64}, {0, 0, 3, kW, 4096}, {1, 0, 0, kX, 4096},
                {2, 0, 2, kH, 4096},          {3, 1, 2, kG, 4096}, {4, 2, 3, kY, 4096}};
  return plan;
}

constexpr size_t kWorkspaceLife = 0, kLifeW = 1, kLifeX = 2, kLifeH = 3, kLifeG = 4, kLifeY = 5;

struct Fault {
  const char* name;
  std::function<void(Plan&)> plant;
  const char* says;
};

TEST(Check, AcceptsAPlanWithoutSharing) {
  EXPECT_EQ(check(small_problem(), roomy_plan(), {.bytes = kEnd + 64, .batch = 4}), "");
}

TEST(Check, NamesEveryPlantedFault) {
  const std::vector<Fault> faults{
      {"overlap", [](Plan& p) { p.lives[kLifeG].offset = kH + 64; }, "g overlaps h at action 1 (bytes 8256-12287)"},
      {"overlap from below", [](Plan& p) { p.lives[kLifeY].offset = kG - 64; },
       "y overlaps g at action 2 (bytes 12288-16319)"},
      {"same place", [](Plan& p) { p.lives[kLifeG].offset = kH; }, "g overlaps h at action 1"},
      {"workspace overlap",
       [](Plan& p) {
         p.lives[kWorkspaceLife].offset = kX;
         p.arena_bytes = kEnd;
       },
       "overlaps"},
      {"variable overwritten", [](Plan& p) { p.lives[kLifeY].offset = kW; }, "overlaps w"},
      {"swapped actions", [](Plan& p) { std::swap(p.actions[1], p.actions[2]); },
       "c reads g at action 1, before anything wrote it"},
      {"missing task",
       [](Plan& p) {
         p.actions[1] = p.actions[0];
         p.lives[kLifeX].last_action = 1;
         p.lives.push_back({kWorkspace, 1, 1, kEnd, 64});
       },
       "c reads g at action 2, before anything wrote it"},
      {"missing last task",
       [](Plan& p) {
         p.actions.pop_back();
         p.lives[kLifeW].last_action = p.lives[kLifeY].last_action = 2;
       },
       "sgd never runs"},
      {"dropped early", [](Plan& p) { p.lives[kLifeH].last_action = 1; },
       "c reads h at action 2, but it was dropped after action 1"},
      {"life starts late", [](Plan& p) { p.lives[kLifeG].first_action = 2; },
       "b writes g at action 1, where it has no place"},
      {"input starts late",
       [](Plan& p) {
         p.lives[kLifeX] = {1, 1, 1, kX, 4096};
       },
       "a reads x at action 0, before it has a place"},
      {"output dies", [](Plan& p) { p.lives[kLifeY].last_action = 2; }, "sgd reads y at action 3, but it was dropped"},
      {"variable moved", [](Plan& p) { p.lives[kLifeW].offset = 64; }, "variable w lies at byte 64, not 0"},
      {"variable dies", [](Plan& p) { p.lives[kLifeW].last_action = 2; }, "variable w lives only"},
      {"variable lost", [](Plan& p) { p.lives.erase(p.lives.begin() + kLifeW); }, "variable w has no place"},
      {"input lost", [](Plan& p) { p.lives.erase(p.lives.begin() + kLifeX); },
       "a reads x at action 0, before it has a place"},
      {"workspace lost",
       [](Plan& p) {
         p.lives.erase(p.lives.begin());
         p.arena_bytes = kEnd;
       },
       "a has no workspace at action 0"},
      {"workspace twice", [](Plan& p) { p.lives.push_back(p.lives[0]); }, "action 0 has workspace twice"},
      {"workspace lingers", [](Plan& p) { p.lives[0].last_action = 1; }, "workspace outlives action 0"},
      {"unaligned", [](Plan& p) { p.lives[kLifeX].offset = kX + 8; }, "x at byte 4104 is not aligned to 64"},
      {"negative", [](Plan& p) { p.lives[kLifeX].offset = -64; }, "not aligned"},
      {"too small", [](Plan& p) { p.lives[kLifeX].bytes = 4032; }, "x needs 4096 bytes but has 4032"},
      {"arena too small", [](Plan& p) { p.arena_bytes -= 64; }, "ends past the arena"},
      {"arena too large", [](Plan& p) { p.arena_bytes += 64; },
       "the arena is 20608 bytes but its contents end at 20544"},
      {"variables miscounted", [](Plan& p) { p.variable_bytes = 64; }, "variables take 4096 bytes, not 64"},
      {"two places",
       [](Plan& p) {
         p.lives.push_back({3, 2, 2, kX, 4096});
       },
       "g has two places at action 2"},
      {"unknown buffer", [](Plan& p) { p.lives[kLifeX].buffer = 9; }, "does not exist"},
      {"unknown task", [](Plan& p) { p.actions[1].task = 9; }, "does not exist"},
      {"unknown variant", [](Plan& p) { p.actions[1].variant = 0; }, "does not exist"},
      {"unknown micro-batch", [](Plan& p) { p.actions[1].micro_batch = 1; }, "does not exist"},
      {"backwards life", [](Plan& p) { p.lives[kLifeG].last_action = 0; }, "spans actions 1-0"},
      {"endless life", [](Plan& p) { p.lives[kLifeG].last_action = 4; }, "spans actions 1-4"},
      {"no micro-batches", [](Plan& p) { p.micro_batches.clear(); }, "no micro-batches"},
      {"too few samples", [](Plan& p) { p.micro_batches = {3}; }, "hold 3 samples of 4"},
      {"too many samples", [](Plan& p) { p.micro_batches = {5}; }, "more than its 4 samples"},
      {"empty micro-batch",
       [](Plan& p) {
         p.micro_batches = {4, 0};
       },
       "a micro-batch has 0 samples"},
      {"updated twice",
       [](Plan& p) {
         p.actions.push_back({.task = 3});
         p.lives[kLifeW].last_action = p.lives[kLifeY].last_action = 4;
       },
       "sgd runs again at action 4, but it cannot be recomputed"},
      {"load without save",
       [](Plan& p) {
         p.actions.push_back(load_action(p, small_problem(), 4));
         p.lives[kLifeW].last_action = p.lives[kLifeY].last_action = 4;
       },
       "y is loaded at action 4, but never saved"},
      {"move without place",
       [](Plan& p) {
         p.actions.push_back(save_action(p, small_problem(), 3));
         p.lives[kLifeW].last_action = p.lives[kLifeY].last_action = 4;
       },
       "g is moved at action 4, where it has no place"},
  };
  const Problem problem = small_problem();
  for (const Fault& fault : faults) {
    Plan plan = roomy_plan();
    fault.plant(plan);
    const std::string answer = check(problem, plan, {.batch = 4, .disk_bytes = MiB});
    EXPECT_NE(answer, "") << fault.name;
    EXPECT_THAT(answer, HasSubstr(fault.says)) << fault.name;
  }
}

TEST(Check, RefusesAPlanOverTheLine) {
  EXPECT_EQ(check(small_problem(), roomy_plan(), {.bytes = kEnd, .batch = 4}),
            "the arena of 20544 bytes is over the line of 20480");
}

TEST(Check, CountsWhatThePlanItselfTakes) {
  Limits limits{.bytes = kEnd + 64 + 4 * 100, .batch = 4, .action_bytes = 100};
  EXPECT_EQ(check(small_problem(), roomy_plan(), limits), "");
  limits.action_bytes = 101;
  EXPECT_EQ(check(small_problem(), roomy_plan(), limits),
            "the arena of 20544 bytes with 404 for 4 actions is over the line of 20944");
}

TEST(Check, OutputsStayUntilTheEnd) {
  Problem problem = small_problem();
  Plan plan = roomy_plan();
  plan.actions = {{.task = 0}, {.task = 1}, {.task = 2}, {.task = 3}};
  problem.tasks[3].reads.clear();
  plan.lives[kLifeY].last_action = 2;
  EXPECT_EQ(check(problem, plan, {.batch = 4}), "output y is dropped before the end");
}

TEST(Check, SharesAPlaceOnlyWhereTheTaskAllowsIt) {
  Problem problem = small_problem();
  Plan plan = roomy_plan();
  plan.lives[kLifeY].offset = kG;  // c writes y over g
  EXPECT_THAT(check(problem, plan, {.batch = 4}), HasSubstr("y overlaps g at action 2"));
  problem.tasks[2].may_share = {{0, 0}};
  EXPECT_EQ(check(problem, plan, {.batch = 4}), "");
  plan.lives[kLifeY].offset = kG - 64;  // sharing means the same offset
  EXPECT_THAT(check(problem, plan, {.batch = 4}), HasSubstr("y overlaps g at action 2"));
  plan.lives[kLifeY].offset = kH;  // c may replace g, not h
  EXPECT_THAT(check(problem, plan, {.batch = 4}), HasSubstr("y overlaps h at action 2"));
}

TEST(Check, AcceptsARecomputedValueAndRefusesAStaleOne) {
  const Problem problem = small_problem();
  Plan plan = roomy_plan();
  plan.actions = {{.task = 0}, {.task = 1}, {.task = 0}, {.task = 2}, {.task = 3}};
  plan.lives = {{kWorkspace, 0, 0, kEnd, 64}, {0, 0, 4, kW, 4096},          {1, 0, 2, kX, 4096}, {2, 0, 1, kH, 4096},
                {3, 1, 3, kG, 4096},          {kWorkspace, 2, 2, kEnd, 64}, {2, 2, 3, kY, 4096}, {4, 3, 4, kH, 4096}};
  EXPECT_EQ(check(problem, plan, {.batch = 4}), "");
  plan.actions[2].task = 1;  // the second life of h is never filled
  plan.lives.erase(plan.lives.begin() + 5);
  EXPECT_EQ(check(problem, plan, {.batch = 4}), "b reads h at action 2, before anything wrote it");

  // The update runs before the recompute that needs the old weight.
  Builder b;
  const BufferId w = b.variable("w", 64);
  const BufferId h = b.temporary("h", 64), g = b.temporary("g", 64);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 64);
  b.task("forward", {w}, {h}).recomputable = true;
  b.task("back", {h}, {g});
  b.task("sgd", {g}, {}, {w});
  b.task("late", {h}, {y});
  Plan stale;
  stale.arena_bytes = 256;
  stale.variable_bytes = 64;
  stale.micro_batches = {1};
  stale.actions = {{.task = 0}, {.task = 1}, {.task = 2}, {.task = 0}, {.task = 3}};
  stale.lives = {{0, 0, 4, 0, 64}, {1, 0, 1, 64, 64}, {1, 3, 4, 64, 64}, {2, 1, 2, 128, 64}, {3, 4, 4, 192, 64}};
  EXPECT_EQ(check(b.problem, stale, {}),
            "forward reads w at action 3, which holds the value of sgd instead of the value before the step");
}

TEST(Check, FollowsSpilledValues) {
  const Problem problem = small_problem();
  Plan plan = roomy_plan();
  const Action save = save_action(plan, problem, 2), load = load_action(plan, problem, 2);
  plan.actions = {{.task = 0}, {.task = 1}, save, load, {.task = 2}, {.task = 3}};
  plan.lives = {{kWorkspace, 0, 0, kEnd, 64}, {0, 0, 5, kW, 4096}, {1, 0, 0, kX, 4096}, {2, 0, 2, kH, 4096},
                {3, 1, 4, kG, 4096},          {2, 3, 4, kX, 4096}, {4, 4, 5, kY, 4096}};
  EXPECT_EQ(check(problem, plan, {.batch = 4, .disk_bytes = MiB}), "");
  Plan late = plan;
  std::swap(late.actions[3], late.actions[4]);
  EXPECT_EQ(check(problem, late, {.batch = 4, .disk_bytes = MiB}), "c reads h at action 3, before anything wrote it");
  Plan early = plan;
  std::swap(early.actions[0], early.actions[2]);
  EXPECT_NE(check(problem, early, {.batch = 4, .disk_bytes = MiB}), "");
}

// One layer in two micro-batches: rows run for each micro-batch, the gradient adds up, the update runs once.
class CheckParts : public ::testing::Test {
 protected:
  void SetUp() override {
    Builder b;
    w = b.variable("w", 64);
    x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 64);
    h = b.temporary("h", 0, 64);
    dw = b.temporary("dw", 64);
    y = b.buffer("y", BufferKind::Output, Tag::Activations, 0, 64);
    b.task("forward", {x, w}, {h}).batch_rule = BatchRule::Rows;
    b.task("head", {h}, {y}).batch_rule = BatchRule::Rows;
    b.task("back", {x, h}, {dw}).batch_rule = BatchRule::Sums;
    b.task("sgd", {dw}, {}, {w});
    problem = b.problem;
    plan.arena_bytes = 64 + 4 * 64 + 2 * 64 + 64 + 4 * 64;
    plan.variable_bytes = 64;
    plan.micro_batches = {2, 2};
    plan.predicted_ns = 1e6;
    plan.exactness = Exactness::WithinTolerance;
    for (int32_t micro_batch : {0, 1})
      for (TaskId task : {0, 1, 2}) plan.actions.push_back({.task = task, .micro_batch = micro_batch});
    plan.actions.push_back({.task = 3});
    plan.lives = {{w, 0, 6, 0, 64},    {x, 0, 5, 64, 256},  {h, 0, 2, 320, 128},
                  {y, 1, 6, 512, 256}, {dw, 2, 6, 448, 64}, {h, 3, 5, 320, 128}};
  }
  std::string answer() { return check(problem, plan, {.batch = 4}); }
  BufferId w, x, h, dw, y;
  Problem problem;
  Plan plan;
};

TEST_F(CheckParts, AcceptsSumsOverParts) { EXPECT_EQ(answer(), ""); }

TEST_F(CheckParts, RefusesALostSum) {
  plan.lives[4] = {dw, 2, 3, 448, 64};
  plan.lives.push_back({dw, 5, 6, 448, 64});
  EXPECT_EQ(answer(), "back adds micro-batch 1 into dw at action 5, which lacks the micro-batches before");
}

TEST_F(CheckParts, RefusesAMissingPart) {
  plan.actions[5].micro_batch = 0;
  problem.tasks[2].recomputable = true;
  EXPECT_EQ(answer(),
            "back reads h at action 5, which holds the value of forward for micro-batch 1 instead of the value of "
            "forward for micro-batch 0");
}

TEST_F(CheckParts, RefusesAnEarlyUpdate) {
  std::swap(plan.actions[6], plan.actions[5]);
  std::swap(plan.actions[5], plan.actions[4]);
  std::swap(plan.actions[4], plan.actions[3]);
  EXPECT_EQ(answer(),
            "sgd reads dw at action 3, which holds the value of back for micro-batch 0 instead of the value of back "
            "for micro-batch 1");
}

TEST_F(CheckParts, RefusesRowsOfAnotherPart) {
  std::swap(plan.actions[2], plan.actions[3]);
  plan.lives[2].last_action = 5;
  plan.lives.pop_back();
  plan.lives[4].first_action = 3;
  EXPECT_EQ(answer(),
            "back reads h at action 3, which holds the value of forward for micro-batch 1 instead of the value of "
            "forward for micro-batch 0");
}

TEST_F(CheckParts, RefusesToSplitWhatMixes) {
  problem.tasks[1].batch_rule = BatchRule::Mixes;
  EXPECT_EQ(answer(), "head mixes the samples of a batch that is split");
}

TEST_F(CheckParts, RefusesAnUpdateForEachPart) {
  plan.actions[6].micro_batch = 1;
  EXPECT_EQ(answer(), "sgd runs in micro-batch 1 at action 6, but it runs once");
}

TEST_F(CheckParts, RefusesToLoseRowsOfAnOutput) {
  plan.lives[3].last_action = 3;
  plan.lives.push_back({y, 4, 6, 512, 256});
  EXPECT_EQ(answer(), "output y loses the rows of earlier micro-batches at action 4");
}

// Small changes of a tight plan that always do harm: the check refuses each.
TEST(Check, MutatedPlansOfAChainAreRefused) {
  const Problem problem = training_chain(6, 512, 8192);
  const Limits limits{.batch = 8};
  const Plan good = std::get<Plan>(make_plan(problem, limits));
  ASSERT_EQ(check(problem, good, limits), "");
  for (size_t i = 0; i < good.lives.size(); ++i) {
    Plan plan = good;
    plan.lives.erase(plan.lives.begin() + static_cast<int64_t>(i));
    EXPECT_NE(check(problem, plan, limits), "") << "without life " << i;
    plan = good;
    --plan.lives[i].last_action;
    EXPECT_NE(check(problem, plan, limits), "") << "life ends early " << i;
    plan = good;
    plan.lives[i].offset += 32;
    EXPECT_NE(check(problem, plan, limits), "") << "unaligned " << i;
  }
  for (size_t s = 0; s < good.actions.size(); ++s) {
    Plan plan = good;
    plan.actions.erase(plan.actions.begin() + static_cast<int64_t>(s));
    EXPECT_NE(check(problem, plan, limits), "") << "without action " << s;
    plan = good;
    plan.actions.insert(plan.actions.begin() + static_cast<int64_t>(s), plan.actions[s]);
    EXPECT_NE(check(problem, plan, limits), "") << "action twice " << s;
  }
}

}  // namespace
}  // namespace plimsoll::plan
