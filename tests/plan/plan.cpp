#include "plan/plan.h"

#include <gtest/gtest.h>

#include "plan/make_plan.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

TEST(Plan, PlacesFollowTheLives) {
  testing::Builder b;
  const BufferId w = b.variable("w", 64), x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId h = b.temporary("h", 64);
  b.task("a", {x}, {h}).workspace_fixed_bytes = 64;
  b.task("b", {h}, {}, {w});
  Plan plan;
  const Action save = testing::save_action(plan, b.problem, h), load = testing::load_action(plan, b.problem, h);
  plan.actions = {{.task = 0}, save, load, {.task = 1}};
  plan.lives = {
      {kWorkspace, 0, 0, 192, 64}, {w, 0, 3, 0, 64}, {x, 0, 0, 64, 64}, {h, 0, 1, 128, 64}, {h, 2, 3, 64, 64}};
  const std::vector<ActionPlaces> places = find_places(b.problem, plan);
  EXPECT_EQ(places[0].reads, std::vector<Bytes>{64});
  EXPECT_EQ(places[0].writes, std::vector<Bytes>{128});
  EXPECT_EQ(places[0].workspace, 192);
  EXPECT_EQ(places[1].reads, std::vector<Bytes>{128});
  EXPECT_EQ(places[2].writes, std::vector<Bytes>{64});
  EXPECT_EQ(places[3].reads, std::vector<Bytes>{64});
  EXPECT_EQ(places[3].updates, std::vector<Bytes>{0});
  EXPECT_EQ(places[3].workspace, -1);
}

TEST(Plan, AShortfallIsOneSentence) {
  const Problem problem = testing::training_chain(3, 1024, 4096);
  Levers levers;
  levers.recompute = false;
  const auto answer = make_plan(problem, {.bytes = 8192, .batch = 4, .levers = levers});
  EXPECT_EQ(
      describe(problem, std::get<Shortfall>(answer)),
      "does not fit: needs 36.1 KiB of 8 KiB, 28.1 KiB too much; tightest at linear_back_w2, which holds w0 "
      "(weights, 4 KiB), w1 (weights, 4 KiB), w2 (weights, 4 KiB); no plan is below 28.1 KiB, which it takes to run "
      "relu_back1");
}

}  // namespace
}  // namespace plimsoll::plan
