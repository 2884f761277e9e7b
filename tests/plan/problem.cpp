#include "plan/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;

void expect_refusal(const Problem& problem, const std::string& says) {
  try {
    require_valid(problem);
    ADD_FAILURE() << "accepted; expected: " << says;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(says));
  }
}

TEST(Problem, SizesAreRoundedToTheAlignment) {
  EXPECT_EQ(placed_bytes({.name = "", .fixed_bytes = 10, .per_sample_bytes = 60}, 1), 128);
  EXPECT_EQ(placed_bytes({}, 5), 0);
}

TEST(Problem, RefusalsNameTheTaskOrBuffer) {
  Builder good;
  const BufferId x = good.buffer("x", BufferKind::Input, Tag::Data, 64), h = good.temporary("h", 64);
  good.task("t", {x}, {h});
  EXPECT_NO_THROW(require_valid(good.problem));
  const auto broken = [&](auto&& change) {
    Problem problem = good.problem;
    change(problem);
    return problem;
  };
  expect_refusal(broken([](Problem& p) { p.tasks[0].reads = {7}; }), "task 't': buffer 7 does not exist");
  expect_refusal(broken([](Problem& p) { p.tasks[0].reads = {1}; }), "'h' is written and also read");
  expect_refusal(broken([](Problem& p) { p.tasks[0].may_share = {{1, 0}}; }), "in-place pair");
  expect_refusal(broken([](Problem& p) { p.tasks[0].workspace_fixed_bytes = -1; }), "workspace is below zero");
  expect_refusal(broken([](Problem& p) { p.tasks[0].fixed_ns = -1; }), "cost is below zero");
  expect_refusal(broken([](Problem& p) { p.tasks[0].variants.emplace_back().reads = {9}; }), "buffer 9 does not exist");
  expect_refusal(broken([](Problem& p) { p.buffers[1].fixed_bytes = -1; }), "buffer 'h': size is below zero");
  expect_refusal(
      broken([](Problem& p) { p.buffers[0].kind = BufferKind::Variable, p.buffers[0].per_sample_bytes = 1; }),
      "a variable cannot grow with the batch");
  expect_refusal(broken([](Problem& p) { p.buffers[0].kind = BufferKind::Temporary; }),
                 "'x' is read before anything wrote");
  expect_refusal(broken([](Problem& p) { p.buffers.push_back({.name = "y", .kind = BufferKind::Output}); }),
                 "output 'y' is written by no task");
}

}  // namespace
}  // namespace plimsoll::plan
