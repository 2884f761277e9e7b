#include "plan/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "plan/check/check.h"
#include "plan/make_plan.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using ::testing::HasSubstr;
using testing::random_problem;
using testing::training_chain;

TEST(Text, AProblemReadsLikeThis) {
  Builder b;
  b.problem.name = "one layer";
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 3136), w = b.variable("w", 4096);
  Task& task = b.task("fc1", {x, w}, {b.temporary("reads", 16, 512)});
  task.per_sample_ns = 2.5;
  task.workspace_per_sample_bytes = 64;
  task.may_share = {{0, 0}};
  task.batch_rule = BatchRule::Rows;
  task.recomputable = true;
  Variant variant;
  variant.name = "slim";
  variant.reads = {x};
  task.variants = {variant};
  EXPECT_EQ(to_text(b.problem),
            "problem \"one layer\"\n"
            "buffer x input data fixed 0 per_sample 3136\n"
            "buffer w variable weights fixed 4096 per_sample 0\n"
            "buffer \"reads\" temporary activations fixed 16 per_sample 512\n"
            "task fc1 reads x w writes \"reads\" workspace 0 64 cost 1000 2.5 share 0 0 batch rows recomputable\n"
            "  variant slim reads x\n");
  EXPECT_EQ(parse_problem(to_text(b.problem)), b.problem);
}

TEST(Text, ProblemsAndPlansReadBackAsTheyWere) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Problem problem = seed == 0 ? training_chain(12, 100, 1000) : random_problem(seed, 40);
    EXPECT_EQ(parse_problem(to_text(problem)), problem);
    const Limits limits{.batch = 3};
    const Plan plan = std::get<Plan>(make_plan(problem, limits));
    const Plan back = parse_plan(to_text(plan, problem), problem);
    EXPECT_EQ(back, plan);
    EXPECT_EQ(check(problem, back, limits), "");
  }
}

TEST(Text, OddNamesReadBack) {
  Builder b;
  b.problem.name = "";
  for (const char* name : {"", "a b", "writes", "@1", "twin", "twin", "quo\"te\\", "#no", "new\nline", "-", "é"})
    b.buffer(name, BufferKind::Input, Tag::Data, 64);
  for (BufferId id = 0; id < 11; ++id) b.task(b.problem.buffers[id].name, {id, 5}, {});
  EXPECT_EQ(parse_problem(to_text(b.problem)), b.problem);
  Plan plan = std::get<Plan>(make_plan(b.problem, {}));
  plan.actions.push_back(testing::save_action(plan, b.problem, 4));
  plan.actions.push_back(testing::load_action(plan, b.problem, 4, 2));
  plan.actions.push_back(testing::load_action(plan, b.problem, 5));  // of two with one name
  plan.transfers.back().fixed_ns = 1.5e9;
  plan.actions[0].variant = 1;
  plan.exactness = Exactness::WithinTolerance;
  plan.next_faster_bytes = 123456;
  plan.decisions.push_back({"drop \"it\"", 12, 0.1});
  EXPECT_EQ(parse_plan(to_text(plan, b.problem), b.problem), plan);
}

TEST(Text, LimitsReadBack) {
  Limits limits{.bytes = 123456789, .batch = 32, .disk_bytes = GiB, .disk_read_bytes_per_s = 1.1e9};
  limits.levers.spill = false;
  limits.levers.recompute = false;
  EXPECT_EQ(parse_limits(to_text(limits)), limits);
  limits.action_bytes = 192;
  limits.search_bytes = 64 * MiB;
  limits.staging_bytes = 3 * MiB;
  EXPECT_EQ(parse_limits(to_text(limits)), limits);
  EXPECT_EQ(parse_limits(to_text(Limits{})), Limits{});
}

void expect_refusal(const std::string& text, const std::string& says) {
  try {
    parse_problem(text);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(says)) << text;
  }
}

TEST(Text, RefusalsNameTheLine) {
  expect_refusal("", "there is no problem");
  expect_refusal("plan x\n", "line 1: 'plan' stands where 'problem' must be");
  expect_refusal("problem p\nbuffer a input data fixed 1\n", "line 2: 'per_sample' is missing");
  expect_refusal("problem p\n\n# note\nbuffer a sink data fixed 1 per_sample 0\n",
                 "line 4: 'sink' is no kind of buffer");
  expect_refusal("problem p\nbuffer a input food fixed 1 per_sample 0\n", "line 2: 'food' is no memory tag");
  expect_refusal("problem p\nbuffer a input data fixed 1x per_sample 0\n", "line 2: '1x' is not a whole number");
  expect_refusal("problem p\ntask t reads a\n", "line 2: buffer 'a' is unknown or not unique");
  expect_refusal("problem p\ntask t cost 1 fast\n", "line 2: 'fast' is not a number");
  expect_refusal("problem p\nvariant v\n", "line 2: a variant comes before any task");
  expect_refusal("problem p\nthing\n", "line 2: 'thing' is not understood");
  expect_refusal("problem \"p\n", "line 1: a quote is not closed");
  expect_refusal("problem p\nbuffer a temporary data fixed 1 per_sample 0\ntask t reads a\n",
                 "'a' is read before anything wrote it");
  EXPECT_THROW(parse_limits("limits\nbytes many\n"), Error);
  EXPECT_THROW(parse_limits("limits\nlever magic on\n"), Error);
  EXPECT_THROW(parse_limits("limits\nlever spill maybe\n"), Error);
  EXPECT_THROW(parse_plan("plan other\n", Problem{}), Error);
  EXPECT_THROW(parse_plan("plan \"\"\nstep t\n", Problem{}), Error);
  EXPECT_THROW(parse_plan("plan \"\"\nwhat\n", Problem{}), Error);
}

}  // namespace
}  // namespace plimsoll::plan
