// The problems of all built-in models, planned over a sweep of lines: every plan passes `sweep`.
#include <gtest/gtest.h>

#include "plan/check/check.h"
#include "plan/make_plan.h"
#include "plan/problem_files.h"

namespace plimsoll::plan {
namespace {

constexpr size_t kLargeProblem = 500;  // tasks from which fewer lines must do

Plan must_plan(const Problem& problem, const Limits& limits) {
  auto answer = make_plan(problem, limits);
  if (const auto* shortfall = std::get_if<Shortfall>(&answer)) {
    ADD_FAILURE() << "at line " << limits.bytes << ": " << describe(problem, *shortfall);
    return {};
  }
  Plan plan = std::get<Plan>(std::move(answer));
  EXPECT_EQ(check(problem, plan, limits), "") << "at line " << limits.bytes;
  return plan;
}

// The need that the refusal names; 0 when the problem fits.
Bytes named_need(const Problem& problem, Limits limits, Bytes bytes) {
  limits.bytes = bytes;
  const auto answer = make_plan(problem, limits);
  const auto* shortfall = std::get_if<Shortfall>(&answer);
  return shortfall == nullptr ? 0 : shortfall->need_bytes;
}

class Replay : public ::testing::TestWithParam<std::string> {};

TEST_P(Replay, LawsHoldOverASweepOfLines) {
  auto [problem, limits] = testing::read_kept_problem(GetParam());
  EXPECT_EQ(problem.name, GetParam());
  const Plan plain = must_plan(problem, limits);
  EXPECT_EQ(plain.predicted_ns, plain.unconstrained_ns);
  const Bytes need = named_need(problem, limits, 0);
  ASSERT_GT(need, 0);
  ASSERT_LE(need, plain.arena_bytes);
  EXPECT_EQ(named_need(problem, limits, need - 1), need) << "refusal names the same need whoever asks";
  const int lines = problem.tasks.size() < kLargeProblem ? 20 : 8;
  Bytes last_peak = plain.arena_bytes;
  double last_ns = plain.predicted_ns;
  for (int i = 0; i < lines; ++i) {
    limits.bytes = need + (plain.arena_bytes - need) * (lines - 1 - i) / (lines - 1);
    const Plan plan = must_plan(problem, limits);
    EXPECT_LE(plan.arena_bytes, limits.bytes);
    EXPECT_LE(plan.arena_bytes, last_peak) << "the peak rises at line " << limits.bytes;
    EXPECT_GE(plan.predicted_ns, last_ns) << "the time falls at line " << limits.bytes;
    EXPECT_GE(plan.arena_bytes, plan.live_bytes);
    EXPECT_LE(plan.arena_bytes, plan.live_bytes + plan.live_bytes / 100) << "packing wastes at line " << limits.bytes;
    EXPECT_GE(plan.live_bytes, plan.lower_bound_bytes);
    last_peak = plan.arena_bytes;
    last_ns = plan.predicted_ns;
  }
  EXPECT_EQ(last_peak, need) << "the smallest line is what it says";
}

TEST_P(Replay, HoldsWithAScratchFile) {
  auto [problem, limits] = testing::read_kept_problem(GetParam());
  limits.disk_bytes = 64 * GiB;
  limits.disk_read_bytes_per_s = limits.disk_write_bytes_per_s = 1e9;
  const Problem* const problems[] = {&problem};
  LineSearch search(problem, problems, limits);
  const Bytes need = std::get<Shortfall>(search.plan_at(0).answer).need_bytes;
  const Bytes most = std::get<Plan>(search.plan_at(limits.bytes).answer).arena_bytes;
  double before = 0;
  constexpr int kLines = 10;
  for (int i = kLines; i >= 0; --i) {
    Limits at = limits;
    at.bytes = need + (most - need) * i / kLines;
    const Choice choice = search.plan_at(at.bytes);
    ASSERT_TRUE(std::holds_alternative<Plan>(choice.answer)) << at.bytes;
    const Plan& plan = std::get<Plan>(choice.answer);
    EXPECT_EQ(check(problem, plan, at), "") << at.bytes;
    EXPECT_GE(plan.predicted_ns, before) << at.bytes;
    before = plan.predicted_ns;
  }
}

// Each process measures the disk anew: a line that one process called enough is enough for the next process.
TEST_P(Replay, WhatFitsDoesNotDependOnTheSpeedOfTheDisk) {
  auto [problem, limits] = testing::read_kept_problem(GetParam());
  limits.disk_bytes = 64 * GiB;
  Bytes need = 0;
  for (const double speed : {0.25e9, 1e9, 4e9}) {
    limits.disk_read_bytes_per_s = 2 * speed;
    limits.disk_write_bytes_per_s = speed;
    const Bytes found = named_need(problem, limits, 0);
    EXPECT_TRUE(need == 0 || found == need) << found << " at " << speed << " bytes/s, else " << need;
    need = found;
  }
}

INSTANTIATE_TEST_SUITE_P(, Replay, ::testing::ValuesIn(testing::kept_problem_names()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ReplayFiles, HoldAllModelsAndPrintAsTheyRead) {
  const std::vector<std::string> names = testing::kept_problem_names();
  EXPECT_GE(names.size(), 11U);
  for (const std::string& name : names) {
    const testing::KeptProblem kept = testing::read_kept_problem(name);
    EXPECT_EQ(to_text(kept.problem), testing::read_text(std::string(PLIMSOLL_PROBLEMS_DIR "/") + name + ".problem"));
    EXPECT_NO_THROW(require_valid(kept.problem)) << name;
    EXPECT_GT(kept.limits.batch, 0) << name;
  }
}

}  // namespace
}  // namespace plimsoll::plan
