// Lanes that run beside each other, and buffers in more than one memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/check/check.h"
#include "plan/faults.h"
#include "plan/planned.h"
#include "plan/problems.h"
#include "plan/text/text.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using ::testing::HasSubstr;
using testing::must_plan;

// A gradient goes out to others while the next one is computed; the update waits for what comes back.
Problem with_network(double network_ns) {
  Builder b;
  const BufferId w = b.variable("w", 64), x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId g = b.temporary("g", 64), sum = b.temporary("sum", 64), h = b.temporary("h", 64);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 64);
  b.task("gradient", {x}, {g}).fixed_ns = 100;
  Task& send = b.task("all_reduce", {g}, {sum});
  send.fixed_ns = network_ns;
  send.lane = Lane::Network;
  b.task("next", {x}, {h}).fixed_ns = 200;
  b.task("use", {h}, {y}).fixed_ns = 10;
  b.task("sgd", {sum}, {}, {w}).fixed_ns = 1;
  for (Task& task : b.problem.tasks) task.per_sample_ns = 0;
  return b.problem;
}

Plan in_given_order(const Problem& problem) {
  Limits limits;
  limits.levers.order = false;
  return must_plan(problem, limits);
}

TEST(Lanes, WhatAnotherLaneDoesPassesBesideTheComputation) {
  EXPECT_EQ(in_given_order(with_network(150)).predicted_ns, 311) << "done before the update needs it";
  EXPECT_EQ(in_given_order(with_network(500)).predicted_ns, 601) << "the update waits for it";
}

TEST(Lanes, EachHasItsOwnTime) {
  const Problem problem = with_network(150);
  const Plan plan = must_plan(problem, {});
  EXPECT_EQ(busy_ns(problem, plan, Lane::Network), 150);
  EXPECT_EQ(busy_ns(problem, plan, Lane::Compute), 311);
  EXPECT_EQ(busy_ns(problem, plan, Lane::Disk), 0);
}

TEST(Lanes, NoStepIsShorterThanItsBusiestLane) {
  const Problem problem = with_network(500);
  Plan plan = must_plan(problem, {});
  plan.predicted_ns = 499;
  EXPECT_EQ(check(problem, plan, {}), "a step is said to take 499 ns, but its network lane alone is busy for 500");
}

TEST(Lanes, ReadBackFromText) {
  const Problem problem = with_network(150);
  EXPECT_THAT(to_text(problem), HasSubstr("task all_reduce reads g writes sum cost 150 0 lane network\n"));
  EXPECT_EQ(parse_problem(to_text(problem)), problem);
}

TEST(Lanes, AProblemMovesNothingToDisk) {
  Problem problem = with_network(150);
  problem.tasks[1].lane = Lane::Disk;
  EXPECT_THROW(require_valid(problem), Error);
}

// A value in a second space, such as the memory of a card, with an offset there.
struct TwoSpaces {
  Problem problem;
  Plan plan;
  Limits limits;
};

TwoSpaces two_spaces() {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 128), h = b.temporary("h", 128);
  const BufferId k = b.temporary("k", 128), y = b.buffer("y", BufferKind::Output, Tag::Activations, 128);
  b.task("to_card", {x}, {h});
  b.task("compute", {h}, {k});
  b.task("from_card", {k}, {y});
  TwoSpaces two;
  two.plan = testing::lay_out(b.problem, testing::script_of({{.task = 0}, {.task = 1}, {.task = 2}}), {1}, 1);
  two.problem = b.problem;
  two.problem.spaces.push_back("card");
  Bytes host = 0, card = 0;
  for (Life& life : two.plan.lives) {
    const bool is_there = life.buffer == h || life.buffer == k;
    two.problem.buffers[static_cast<size_t>(life.buffer)].space = is_there ? 1 : kHost;
    Bytes& end = is_there ? card : host;
    life.offset = std::exchange(end, end + life.bytes);
  }
  two.plan.arena_bytes = host;
  two.plan.more_arenas = {card};
  two.limits.more_spaces = {256};
  return two;
}

TEST(Spaces, HaveTheirOwnPlaces) {
  const TwoSpaces two = two_spaces();
  EXPECT_EQ(two.plan.arena_bytes, 256);
  EXPECT_EQ(check(two.problem, two.plan, two.limits), "");
}

TEST(Spaces, OverlapsAreFoundInEach) {
  TwoSpaces two = two_spaces();
  for (Life& life : two.plan.lives) life.offset = 0;
  two.plan.arena_bytes = 128;
  two.plan.more_arenas = {128};
  EXPECT_THAT(check(two.problem, two.plan, two.limits), HasSubstr("k overlaps h at action 1"));
}

TEST(Spaces, EachHasItsOwnLimit) {
  TwoSpaces two = two_spaces();
  two.limits.more_spaces = {192};
  EXPECT_EQ(check(two.problem, two.plan, two.limits), "the arena in card of 256 bytes is over the line of 192");
  two.limits.more_spaces = {};
  EXPECT_EQ(check(two.problem, two.plan, two.limits), "nothing says how many bytes there are in card");
}

TEST(Spaces, EachHasItsOwnArena) {
  TwoSpaces two = two_spaces();
  two.plan.more_arenas = {};
  EXPECT_EQ(check(two.problem, two.plan, two.limits), "h is in card, which has no arena");
  two.plan.more_arenas = {256, 0};
  EXPECT_EQ(check(two.problem, two.plan, two.limits), "there are 3 arenas for 2 spaces");
  two.plan.more_arenas = {320};
  EXPECT_EQ(check(two.problem, two.plan, two.limits), "the arena in card is 320 bytes but its contents end at 256");
}

TEST(Spaces, ReadBackFromText) {
  const TwoSpaces two = two_spaces();
  EXPECT_EQ(parse_problem(to_text(two.problem)), two.problem);
  EXPECT_EQ(parse_plan(to_text(two.plan, two.problem), two.problem), two.plan);
  EXPECT_EQ(parse_limits(to_text(two.limits)), two.limits);
  EXPECT_THROW(parse_problem("problem p\nbuffer a input data fixed 1 per_sample 0 in card\n"), Error);
}

TEST(Spaces, PlansAreMadeForOne) {
  const TwoSpaces two = two_spaces();
  EXPECT_THROW(make_plan(two.problem, two.limits), Error);
}

TEST(Spaces, ABufferOfASpaceThatDoesNotExistIsRefused) {
  Problem problem = two_spaces().problem;
  problem.buffers[0].space = 2;
  EXPECT_THROW(require_valid(problem), Error);
}

}  // namespace
}  // namespace plimsoll::plan
