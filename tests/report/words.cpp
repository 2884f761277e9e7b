#include "report/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/planned.h"
#include "plan/problems.h"

namespace plimsoll::report {
namespace {

using ::testing::HasSubstr;
using testing::must_plan;
using ::testing::Not;
using ::testing::StartsWith;
using testing::training_chain;

plan::Limits limits(Bytes bytes, int64_t batch) {
  plan::Limits limits;
  limits.bytes = bytes;
  limits.batch = batch;
  return limits;
}

TEST(Words, OfAPlanThatNeedsNothing) {
  const plan::Problem problem = training_chain(6, 512, 4096);
  const plan::Plan plan = must_plan(problem, limits(GiB, 16));
  EXPECT_EQ(actions_text(problem, plan, ""),
            "batch whole · nothing recomputed · nothing spilled · results bit-identical");
  EXPECT_THAT(time_text(plan), HasSubstr("+0.0 % against"));
  EXPECT_EQ(exactness_word(plan, {}), "bit-identical");
}

TEST(Words, OfAPlanThatRecomputes) {
  const plan::Problem problem = training_chain(6, 512, 4096);
  const plan::Plan free = must_plan(problem, limits(GiB, 16));
  const Bytes need = testing::smallest_line(problem, limits(0, 16));
  ASSERT_LT(need, free.arena_bytes);
  const plan::Plan tight = must_plan(problem, limits(need, 16));
  EXPECT_THAT(actions_text(problem, tight, ""), HasSubstr("recomputes "));
  EXPECT_THAT(actions_text(problem, tight, ""), Not(HasSubstr("nothing recomputed")));
  EXPECT_THAT(time_text(tight), Not(HasSubstr("+0.0 %")));
}

TEST(Words, OfMicroBatches) {
  plan::Problem problem = training_chain(6, 512, 4096);
  problem.micro_batch = 4;
  const plan::Plan plan = must_plan(problem, limits(GiB, 16));
  EXPECT_THAT(actions_text(problem, plan, ""), StartsWith("in 4 micro-batches of 4 samples · "));
  EXPECT_THAT(exactness_text(plan), HasSubstr("equal up to rounding (in micro-batches"));
  EXPECT_THAT(peak_task(problem, plan), HasSubstr(" (micro-batch "));
  EXPECT_EQ(exactness_word(plan, {.splits_the_norm = true}), "differs");
  EXPECT_THAT(exactness_text(plan, {.splits_the_norm = true}), HasSubstr("batch_norm takes each micro-batch"));
}

TEST(Words, OfWhatChangesResults) {
  const plan::Problem problem = training_chain(2, 512, 4096);
  const plan::Plan plan = must_plan(problem, limits(GiB, 16));
  EXPECT_EQ(exactness_word(plan, {.values = DType::F16}), "lossy");
  EXPECT_EQ(exactness_word(plan, {.splits_the_norm = true}), "bit-identical") << "the batch is whole";
  EXPECT_THAT(exactness_text(plan, {.values = DType::BF16}), StartsWith("differ: values in bf16, as asked"));
  EXPECT_THAT(exactness_text(plan, {.values = DType::BF16, .half_products = true}),
              StartsWith("differ: values in bf16, products in bf16, as asked"));
  EXPECT_EQ(exactness_word(plan, {.half_products = true}), "lossy");
  EXPECT_THAT(exactness_text(plan, {.state_bits = 8}), StartsWith("differ: optimiser state in 8 bits"));
  EXPECT_EQ(storage_text(DType::F16, 16), "values in f16 and optimiser state in 16 bits");
}

TEST(Words, OfNumbers) {
  EXPECT_EQ(percent_more(1.15, 1), "+15.0 %");
  EXPECT_EQ(percent_more(1, 0), "+0.0 %");
  EXPECT_EQ(grouped_text(0), "0");
  EXPECT_EQ(grouped_text(1234567), "1,234,567");
  EXPECT_EQ(grouped_text(-123456), "-123,456");
}

TEST(Words, DecisionsEndWithHowToSeeMore) {
  plan::Plan plan;
  for (int i = 0; i < 5; ++i) plan.decisions.push_back({"recompute " + std::to_string(i), MiB, 2e6});
  EXPECT_EQ(decisions_text(plan, 1, "--all"),
            "        recompute 0 saves 1 MiB, costs 2.0 ms\n        ... and 4 more (--all)\n");
  EXPECT_THAT(decisions_text(plan, 1), HasSubstr("... and 4 more\n"));
  EXPECT_THAT(decisions_text(plan, 5), Not(HasSubstr("more")));
}

TEST(Words, WhatATaskNeedsIsNamedLargestFirst) {
  const plan::Problem problem = training_chain(2, 512, 4096);
  EXPECT_THAT(needs_text(problem, 0, 16, 2), StartsWith("linear0 needs at once x (8 KiB), linear0 (8 KiB) and "));
  EXPECT_THAT(needs_text(problem, -1, 16, 2), HasSubstr("held throughout"));
}

}  // namespace
}  // namespace plimsoll::report
