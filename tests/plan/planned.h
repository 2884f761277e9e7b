// Planning that must succeed and pass the check, and what must hold over a sweep of lines.
#pragma once

#include <gtest/gtest.h>

#include "plan/check/check.h"
#include "plan/make_plan.h"

namespace plimsoll::testing {

using namespace plan;

inline Plan must_plan(const Problem& problem, const Limits& limits) {
  auto answer = make_plan(problem, limits);
  if (const auto* shortfall = std::get_if<Shortfall>(&answer)) {
    ADD_FAILURE() << problem.name << ": " << describe(problem, *shortfall);
    return {};
  }
  Plan plan = std::get<Plan>(std::move(answer));
  EXPECT_EQ(check(problem, plan, limits), "") << problem.name;
  EXPECT_LE(plan.arena_bytes, limits.bytes);
  return plan;
}

inline Bytes smallest_line(const Problem& problem, Limits limits) {
  limits.bytes = 0;
  const auto answer = make_plan(problem, limits);
  const auto* shortfall = std::get_if<Shortfall>(&answer);
  return shortfall == nullptr ? 0 : shortfall->need_bytes;
}

// From the bytes of the plan without a line down to the smallest line: a smaller line gives no higher peak and no
// faster step, the smallest line is used to the last byte, and one byte less is refused with that line as the need.
inline void sweep(const Problem& problem, Limits limits, int lines) {
  const Plan plain = must_plan(problem, limits);
  const Bytes need = smallest_line(problem, limits);
  Bytes last_peak = plain.arena_bytes;
  double last_ns = plain.predicted_ns;
  for (int i = 0; i <= lines; ++i) {
    limits.bytes = need + (plain.arena_bytes - need) * (lines - i) / lines;
    const Plan plan = must_plan(problem, limits);
    EXPECT_LE(plan.arena_bytes, last_peak) << problem.name << " at line " << limits.bytes;
    EXPECT_GE(plan.predicted_ns, last_ns) << problem.name << " at line " << limits.bytes;
    EXPECT_EQ(plan.exactness, plan.micro_batches.size() > 1 ? Exactness::WithinTolerance : Exactness::BitIdentical);
    last_peak = plan.arena_bytes;
    last_ns = plan.predicted_ns;
  }
  EXPECT_EQ(last_peak, need) << "the smallest line is what it says";
  limits.bytes = need - 1;
  const auto answer = make_plan(problem, limits);
  ASSERT_TRUE(std::holds_alternative<Shortfall>(answer));
  EXPECT_EQ(std::get<Shortfall>(answer).need_bytes, need) << "the same whoever asks";
}

}  // namespace plimsoll::testing
