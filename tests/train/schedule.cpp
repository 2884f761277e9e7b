#include <plimsoll/callback.h>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

// Expected numbers are Keras' formulas, by hand.
TEST(Schedule, FollowsTheFormulas) {
  EXPECT_DOUBLE_EQ(RateSchedule::constant(0.3)(1000), 0.3);
  const RateSchedule exponential = RateSchedule::exponential(0.1, 100, 0.5);
  EXPECT_DOUBLE_EQ(exponential(0), 0.1);
  EXPECT_NEAR(exponential(50), 0.1 * std::sqrt(0.5), 1e-12);
  EXPECT_DOUBLE_EQ(RateSchedule::exponential(0.1, 100, 0.5, true)(199), 0.05);
  const RateSchedule cosine = RateSchedule::cosine(0.1, 100, {.alpha = 0.1, .warmup_steps = 10, .warmup_from = 0.02});
  EXPECT_DOUBLE_EQ(cosine(0), 0.02);
  EXPECT_DOUBLE_EQ(cosine(5), 0.06);
  EXPECT_DOUBLE_EQ(cosine(10), 0.1);
  EXPECT_NEAR(cosine(60), 0.1 * (0.9 * 0.5 + 0.1), 1e-12);
  EXPECT_NEAR(cosine(110), 0.01, 1e-12);
  EXPECT_NEAR(cosine(5000), 0.01, 1e-12);
  const RateSchedule polynomial = RateSchedule::polynomial(0.1, 100, 0.02, 2);
  EXPECT_NEAR(polynomial(50), 0.08 * 0.25 + 0.02, 1e-12);
  EXPECT_NEAR(polynomial(300), 0.02, 1e-12);
  EXPECT_NEAR(RateSchedule::polynomial(0.1, 100, 0.02, 1, true)(150), 0.08 * 0.25 + 0.02, 1e-12) << "over 200 steps";
  const RateSchedule piecewise = RateSchedule::piecewise({10, 20}, {0.1, 0.01, 0.001});
  EXPECT_DOUBLE_EQ(piecewise(10), 0.1);
  EXPECT_DOUBLE_EQ(piecewise(11), 0.01);
  EXPECT_DOUBLE_EQ(piecewise(21), 0.001);
}

TEST(Schedule, RestartsInLongerPeriods) {
  const RateSchedule restarts = RateSchedule::cosine_restarts(0.1, 100, {.longer = 2, .lower = 0.5});
  EXPECT_NEAR(restarts(0), 0.1, 1e-12);
  EXPECT_NEAR(restarts(50), 0.05, 1e-12);
  EXPECT_NEAR(restarts(101), 0.05, 1e-4) << "half as high";
  EXPECT_NEAR(restarts(200), 0.025, 1e-9) << "in the middle of 200 steps";
  const RateSchedule even = RateSchedule::cosine_restarts(0.1, 100, {.longer = 1});
  EXPECT_NEAR(even(250), 0.05, 1e-12);
}

TEST(Schedule, InverseTime) {
  const RateSchedule schedule = RateSchedule::inverse_time(0.1, 10, 0.5);
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(20), 0.05);
  EXPECT_DOUBLE_EQ(RateSchedule::inverse_time(0.1, 10, 1, true)(19), 0.05);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=0.1, total_steps=10)
TEST(Schedule, OneCycle) {
  const RateSchedule schedule = RateSchedule::one_cycle(0.1, 10);
  EXPECT_NEAR(schedule(0), 0.004, 1e-12);
  EXPECT_NEAR(schedule(1), 0.052, 1e-12);
  EXPECT_NEAR(schedule(2), 0.1, 1e-12);
  EXPECT_NEAR(schedule(9), 4e-7, 1e-12);
  EXPECT_NEAR(schedule(100), 4e-7, 1e-12) << "it stays at its end";
}

TEST(Schedule, IsReadFromText) {
  EXPECT_DOUBLE_EQ(RateSchedule::parse("inverse-time:steps=10,factor=1", 0.1)(10), 0.05);
  EXPECT_NEAR(RateSchedule::parse("one-cycle:steps=10", 0.1)(2), 0.1, 1e-12);

  EXPECT_DOUBLE_EQ(RateSchedule::parse("constant", 0.2)(7), 0.2);
  EXPECT_DOUBLE_EQ(RateSchedule::parse("cosine:steps=100,warmup=10", 0.1)(5), 0.05);
  EXPECT_DOUBLE_EQ(RateSchedule::parse("exponential:steps=10,factor=0.5,staircase", 0.1)(19), 0.05);
  EXPECT_DOUBLE_EQ(RateSchedule::parse("piecewise:10=0.01,20=0.001", 0.1)(15), 0.01);
  EXPECT_NEAR(RateSchedule::parse("polynomial:steps=100,end=0,power=2", 0.1)(50), 0.025, 1e-12);
  EXPECT_NEAR(RateSchedule::parse("restarts:steps=100,longer=1", 0.1)(250), 0.05, 1e-12);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  const auto refusal = [](const char* text) { return error_of([&] { RateSchedule::parse(text, 0.1); }); };
  EXPECT_THAT(refusal("cosin:steps=1"), HasSubstr("there is no schedule 'cosin'; known are constant"));
  EXPECT_THAT(refusal("cosine"), HasSubstr("steps is missing; give steps=1000"));
  EXPECT_THAT(refusal("cosine:steps=0"), HasSubstr("over 0 steps"));
  EXPECT_THAT(refusal("cosine:steps=1.5"), HasSubstr("no whole number"));
  EXPECT_THAT(refusal("cosine:steps=ten"), HasSubstr("'ten' is no number"));
  EXPECT_THAT(refusal("cosine:steps=1,power=2"), HasSubstr("'power' is not one of its settings"));
  EXPECT_THAT(error_of([] { RateSchedule::piecewise({1}, {0.1}); }), HasSubstr("1 boundaries need 2 rates"));
  EXPECT_THAT(error_of([] { RateSchedule::piecewise({2, 1}, {0.1, 1, 1}); }), HasSubstr("must go up"));
  EXPECT_THAT(error_of([] { RateSchedule::one_cycle(0.1, 10, {.rise = 2}); }), HasSubstr("a share from 0 to 1"));
  EXPECT_THAT(error_of([] { RateSchedule::inverse_time(0.1, 10, -1); }), HasSubstr("zero or more"));
  EXPECT_THAT(error_of([] { RateSchedule::constant(-1); }), HasSubstr("a learning rate of -1"));
}

}  // namespace
}  // namespace plimsoll
