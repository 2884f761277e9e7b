#include "plan/search/split.h"

#include <gtest/gtest.h>

#include "plan/planned.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using testing::must_plan;
using testing::smallest_line;
using testing::sweep;
using testing::training_chain;

TEST(Split, TheLastPartTakesWhatIsLeft) {
  EXPECT_EQ(cut_batch(10, 4), (std::vector<int64_t>{4, 4, 2}));
  EXPECT_EQ(cut_batch(8, 4), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(cut_batch(3, 4), (std::vector<int64_t>{3}));
  EXPECT_EQ(cut_batch(3, 0), (std::vector<int64_t>{3}));
}

TEST(Split, AChainRunsForEachPartAndUpdatesOnce) {
  Problem problem = training_chain(4, 4096, 256);
  problem.micro_batch = 3;
  const Plan plan = must_plan(problem, {.batch = 8});
  EXPECT_EQ(plan.micro_batches, (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(plan.exactness, Exactness::WithinTolerance);
  std::vector<int> runs(problem.tasks.size(), 0);
  for (const Action& action : plan.actions) ++runs[static_cast<size_t>(action.task)];
  for (size_t t = 0; t < runs.size(); ++t)
    EXPECT_EQ(runs[t], problem.tasks[t].name.starts_with("sgd") ? 1 : 3) << problem.tasks[t].name;
}

TEST(Split, PartsNeedLess) {
  Problem whole = training_chain(6, 1 << 16, 256), micro_batches = whole;
  micro_batches.micro_batch = 2;
  Limits limits{.batch = 8, .levers = {.recompute = false}};
  EXPECT_LT(smallest_line(micro_batches, limits), smallest_line(whole, limits) / 2);
}

TEST(Split, LawsHoldWithRecomputation) {
  Problem problem = training_chain(10, 4096, 512);
  for (const int64_t micro_batch : {1, 3, 4, 7}) {
    problem.micro_batch = micro_batch;
    sweep(problem, {.batch = 8, .pack_nodes = 20'000}, 8);
  }
}

TEST(Split, TheFastestThatFitsIsChosen) {
  Problem whole = training_chain(6, 1 << 16, 256), micro_batches = whole;
  micro_batches.micro_batch = 2;
  const Problem* const both[] = {&whole, &micro_batches};
  Limits limits{.batch = 8};
  EXPECT_EQ(choose_plan(whole, both, limits).problem, 0U) << "whole when there is room";
  limits.bytes = smallest_line(whole, limits) - 1;
  const Choice choice = choose_plan(whole, both, limits);
  ASSERT_TRUE(std::holds_alternative<Plan>(choice.answer));
  EXPECT_EQ(choice.problem, 1U);
  EXPECT_EQ(check(micro_batches, std::get<Plan>(choice.answer), limits), "");
}

TEST(Split, ATaskThatMixesTheBatchForbidsIt) {
  Problem problem = training_chain(3, 4096, 256);
  ASSERT_EQ(problem.tasks[1].name, "relu0");
  problem.tasks[1].batch_rule = BatchRule::Mixes;
  EXPECT_EQ(find_split(problem).mixing, 1);
  problem.micro_batch = 2;
  EXPECT_THROW(make_plan(problem, {.batch = 8}), std::exception);
}

// rows -> update of a table by all rows of the batch, as a row-sparse gradient does.
Problem table_update() {
  Builder b;
  b.problem.name = "table";
  const BufferId table = b.variable("table", 4096);
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 256), h = b.temporary("h", 0, 4096);
  const BufferId rows = b.temporary("rows", 0, 512);
  const BufferId loss = b.buffer("loss", BufferKind::Output, Tag::Activations, 4);
  b.task("look", {x, table}, {h}).batch_rule = BatchRule::Rows;
  b.task("loss", {h}, {loss}).batch_rule = BatchRule::Sums;
  b.task("back", {h}, {rows}).batch_rule = BatchRule::Rows;
  b.task("update", {rows, x}, {}, {table});
  return b.problem;
}

TEST(Split, RowsAreCollectedForATaskThatNeedsThemAll) {
  Problem problem = table_update();
  const Split split = find_split(problem);
  ASSERT_TRUE(split.is_possible());
  EXPECT_EQ(split.when.back(), Split::When::After);
  EXPECT_TRUE(split.is_collected[3]);
  problem.buffers[3].is_collected = true;
  problem.micro_batch = 2;
  const Limits limits{.batch = 8};
  const Plan plan = must_plan(problem, limits);
  for (const Life& life : plan.lives) {
    if (life.buffer == 3) {
      EXPECT_EQ(life.bytes, 8 * 512);
    }
  }
  problem.buffers[3].is_collected = false;
  EXPECT_NE(check(problem, plan, limits), "") << "rows of one micro-batch are not enough";
}

TEST(Split, WhatAPartMakesFromWeightsAloneIsMadeForEach) {
  Problem problem = training_chain(2, 4096, 1024);
  Builder b{problem};
  const BufferId copy = b.temporary("copy", 1024);
  Task reorder;
  reorder.name = "reorder";
  reorder.reads = {0};
  reorder.writes = {copy};
  reorder.recomputable = true;
  reorder.batch_rule = BatchRule::Rows;
  b.problem.tasks.insert(b.problem.tasks.begin(), reorder);
  b.problem.tasks[1].reads[1] = copy;
  b.problem.micro_batch = 2;
  const Plan plan = must_plan(b.problem, {.batch = 4});
  int runs = 0;
  for (const Action& action : plan.actions) runs += action.task == 0 ? 1 : 0;
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace plimsoll::plan
