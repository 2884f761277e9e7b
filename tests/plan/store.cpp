#include "plan/search/store.h"

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

const Limits kDisk{
    .batch = 4, .disk_bytes = GiB, .disk_read_bytes_per_s = 1e9, .disk_write_bytes_per_s = 1e9, .pack_nodes = 20'000};

// Weights with state of an optimiser beside them.
Problem chain_with_state(int layers, Bytes row_bytes, Bytes weight_bytes) {
  Problem problem = training_chain(layers, row_bytes, weight_bytes);
  for (Task& task : problem.tasks) {
    if (!task.name.starts_with("sgd")) continue;
    problem.buffers.push_back({"state of " + task.name, Tag::Optimiser, BufferKind::Variable, 2 * weight_bytes, 0});
    task.updates.push_back(static_cast<BufferId>(problem.buffers.size()) - 1);
  }
  return problem;
}

TEST(Store, NothingIsStoredWithoutNeedOrWithoutADisk) {
  const Problem problem = chain_with_state(6, 4096, 256 * KiB);
  EXPECT_TRUE(must_plan(problem, kDisk).stored.empty());
  Limits none = kDisk;
  none.disk_bytes = 0;
  EXPECT_GE(smallest_line(problem, none), 6 * 3 * 256 * KiB);
  none = kDisk;
  none.levers.spill = false;
  EXPECT_GE(smallest_line(problem, none), 6 * 3 * 256 * KiB);
}

TEST(Store, StateAndWeightsAreStreamedThroughALineAThirdOfTheirSize) {
  const Problem problem = chain_with_state(12, 4096, 256 * KiB);
  const Bytes all = 12 * 3 * 256 * KiB;
  EXPECT_LT(smallest_line(problem, kDisk), all / 3);
  Limits limits = kDisk;
  limits.bytes = all / 3;
  const Plan plan = must_plan(problem, limits);
  EXPECT_FALSE(plan.stored.empty());
  EXPECT_EQ(plan.exactness, Exactness::BitIdentical);
  EXPECT_GE(count_work(problem, plan).loads, static_cast<int64_t>(plan.stored.size()));
  EXPECT_GE(count_work(problem, plan).saves, static_cast<int64_t>(plan.stored.size()));
}

TEST(Store, LawsHold) {
  sweep(chain_with_state(8, 64 * KiB, 256 * KiB), kDisk, 8);
  Limits limits = kDisk;
  limits.levers.recompute = false;
  sweep(chain_with_state(8, 64 * KiB, 128 * KiB), limits, 8);
  Problem micro_batches = chain_with_state(6, 64 * KiB, 128 * KiB);
  micro_batches.micro_batch = 1;
  sweep(micro_batches, kDisk, 8);
}

TEST(Store, ValuesAreSpilledWhereNothingMayRunAgain) {
  const Problem problem = training_chain(10, 256 * KiB, 256);
  Limits limits = kDisk;
  limits.levers.recompute = false;
  Limits none = limits;
  none.levers.spill = false;
  EXPECT_LT(smallest_line(problem, limits), smallest_line(problem, none) / 2);
  limits.bytes = smallest_line(problem, limits);
  const Plan plan = must_plan(problem, limits);
  EXPECT_TRUE(plan.stored.empty());
  EXPECT_GT(count_work(problem, plan).saves, 3);
}

TEST(Store, APlanKnowsTheTimeOfItsDisk) {
  const Problem problem = chain_with_state(12, 4096, 256 * KiB);
  Limits limits = kDisk;
  limits.bytes = smallest_line(problem, kDisk);
  const Plan plan = must_plan(problem, limits);
  Bytes moved = 0;
  for (const Action& action : plan.actions)
    if (is_transfer(problem, action))
      moved += placed_bytes(problem.buffers[static_cast<size_t>(moved_by(task_of(problem, plan, action)))], 4);
  EXPECT_GT(moved, 0);
  EXPECT_DOUBLE_EQ(busy_ns(problem, plan, Lane::Disk), static_cast<double>(moved)) << "at a byte each nanosecond";
  EXPECT_GE(plan.predicted_ns, busy_ns(problem, plan, Lane::Disk)) << "one transfer at a time";
}

TEST(Store, MoreIsKeptInMemoryTheMoreRoomThereIs) {
  // Weights that the disk takes far longer to move than the tasks to use: every kept one counts.
  const Problem problem = chain_with_state(32, 64, 256 * KiB);
  const Bytes all = 32 * 3 * 256 * KiB;
  int64_t stored = 1 << 20;
  for (const Bytes percent : {20, 30, 40, 50, 60, 70, 80, 90}) {
    Limits limits = kDisk;
    limits.bytes = all * percent / 100;
    const Plan plan = must_plan(problem, limits);
    EXPECT_LE(std::ssize(plan.stored), stored) << percent;
    EXPECT_TRUE(plan.arena_bytes >= limits.bytes * 85 / 100) << percent << " " << plan.arena_bytes;
    stored = std::ssize(plan.stored);
  }
}

TEST(Store, TheDiskHasALimitToo) {
  const Problem problem = chain_with_state(6, 4096, 256 * KiB);
  Limits limits = kDisk;
  limits.disk_bytes = MiB;
  EXPECT_GE(smallest_line(problem, limits), smallest_line(problem, kDisk) + 1);
}

TEST(Store, WhatAnotherPlanStoredStaysStored) {
  const Problem problem = chain_with_state(6, 4096, 256 * KiB);
  Limits limits = kDisk;
  limits.stored = {0, 1};
  EXPECT_EQ(must_plan(problem, limits).stored, (std::vector<BufferId>{0, 1}));
  limits.stored.emplace();
  limits.bytes = smallest_line(problem, limits);
  EXPECT_TRUE(must_plan(problem, limits).stored.empty());
}

TEST(Store, LoadsStartEarlyAndHideBehindTheComputation) {
  Problem problem = chain_with_state(12, 4096, 256 * KiB);
  for (Task& task : problem.tasks) task.fixed_ns = 2e6;  // far longer than the transfer beside it
  Limits limits = kDisk;
  limits.bytes = 12 * 3 * 256 * KiB / 2;
  const Plan plan = must_plan(problem, limits);
  ASSERT_FALSE(plan.stored.empty());
  EXPECT_LT(plan.predicted_ns, 1.1 * plan.unconstrained_ns);
}

}  // namespace
}  // namespace plimsoll::plan
