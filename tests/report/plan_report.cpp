#include "report/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "plan/planned.h"
#include "plan/problems.h"
#include "report/forecast.h"

namespace plimsoll::report {
namespace {

using ::testing::HasSubstr;
using testing::must_plan;
using ::testing::Not;
using testing::training_chain;

struct Planned {
  plan::Problem problem = training_chain(6, 512, 4096);
  plan::Plan plan;
  explicit Planned(int64_t micro_batches = 0) {
    problem.micro_batch = micro_batches;
    plan::Limits limits;
    limits.batch = 16;
    plan = must_plan(problem, limits);
  }
  PlanFacts facts() const {
    PlanFacts facts{.problem = problem, .plan = plan};
    facts.model = "chain";
    facts.batch = 16;
    facts.weights = 1234567;
    facts.line_bytes = GiB;
    facts.line_reason = "as asked";
    facts.arena_bytes = plan.arena_bytes;
    facts.runtime_bytes = 10 * MiB;
    facts.data_bytes = MiB;
    facts.peak_bytes = plan.arena_bytes + facts.around_arena();
    return facts;
  }
};

Refusal refusal() {
  Refusal refusal;
  refusal.line = 10 * MiB;
  refusal.need = 12 * MiB + 3;
  refusal.smallest_line = round_line(refusal.need);
  refusal.tightest_task = "linear3";
  refusal.holders = {{"relu3", Tag::Activations, 5 * MiB}, {"w0", Tag::Weights, MiB}};
  return refusal;
}

std::vector<RemedyRow> remedies() {
  return {{"line 12.25MiB", "--memory 12.25MiB", "the smallest line that works as asked", 1.25, false, false, 0},
          {"batch 4", "", "the largest batch found that fits: other results", 1, true, false, 0}};
}

TEST(PlanReport, TextNamesLinePeakAndHolders) {
  const Planned planned;
  const std::string text = plan_text(planned.facts());
  for (const char* words :
       {"plan    chain · batch 16 · 1,234,567 weights", "line    1,073,741,824 bytes (1 GiB), as asked", "data 1",
        "runtime 10 MiB", "does    batch whole", "time    predicted", "peak    planned"})
    EXPECT_THAT(text, HasSubstr(words));
  EXPECT_THAT(text, Not(HasSubstr("smallest possible")));
  EXPECT_THAT(text, Not(HasSubstr("disk  ")));
}

TEST(PlanReport, TextOfAStepWithoutModelAndLine) {
  const Planned planned;
  PlanFacts facts{.problem = planned.problem, .plan = planned.plan};
  facts.batch = 16;
  facts.arena_bytes = facts.peak_bytes = planned.plan.arena_bytes;
  const std::string text = plan_text(facts);
  EXPECT_THAT(text, HasSubstr("plan    batch 16 · 36 tasks\nline    none\n"));
  EXPECT_THAT(text, Not(HasSubstr("of the line")));
}

TEST(PlanReport, TextSaysWhatElseIsKnown) {
  const Planned planned;
  PlanFacts facts = planned.facts();
  facts.lower_bound = {MiB, "linear0 needs all of it"};
  facts.batch_reason = "batch 16 is the largest";
  facts.scratch_file_bytes = 3 * MiB;
  facts.scratch_folder = "/disk";
  facts.peak_bytes += MiB;
  const std::string text = plan_text(facts);
  for (const char* words : {"smallest possible 1 MiB\n        where linear0 needs all of it", "batch 16 is the largest",
                            "disk    3 MiB in /disk", "at planning itself"})
    EXPECT_THAT(text, HasSubstr(words));
}

TEST(PlanReport, JsonHasTheSameNumbers) {
  const Planned planned(4);
  const auto json = nlohmann::json::parse(plan_json(planned.facts()));
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["model"], "chain");
  EXPECT_EQ(json["planned_peak_bytes"], planned.facts().peak_bytes);
  EXPECT_EQ(json["micro_batches"], (std::vector<int64_t>{4, 4, 4, 4}));
  EXPECT_EQ(json["exactness"], "within-tolerance");
  EXPECT_GE(json["by_tag"]["runtime"], 10 * MiB);
  EXPECT_FALSE(json.contains("lower_bound_reason"));
  EXPECT_THAT(plan_json(planned.facts()), Not(HasSubstr("\n")));
  EXPECT_THAT(plan_json(planned.facts(), 2), HasSubstr("\n  \"arena_bytes\""));
}

TEST(PlanReport, RefusalAsJson) {
  const auto json = nlohmann::json::parse(refusal_json(refusal(), remedies()));
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["deficit_bytes"], 2 * MiB + 3);
  EXPECT_EQ(json["holders"][0]["name"], "relu3");
  ASSERT_EQ(json["remedies"].size(), 2U);
  EXPECT_EQ(json["remedies"][0]["flags"], "--memory 12.25MiB");
  EXPECT_EQ(json["remedies"][0]["change"], "line 12.25MiB");
  EXPECT_FALSE(json["remedies"][1].contains("flags"));
}

TEST(PlanReport, RemediesAsATable) {
  const std::string text = remedies_text(remedies());
  EXPECT_THAT(text, HasSubstr("  --memory 12.25MiB    +25.0 %  the smallest line"));
  EXPECT_THAT(text, HasSubstr("  batch 4               +0.0 %  the largest batch"));
  EXPECT_EQ(remedies_text({}), "");
}

TEST(Forecast, OfAPlan) {
  const Planned planned;
  PlanFacts facts = planned.facts();
  facts.smallest_line = 11 * MiB;
  const Forecast forecast = make_forecast(facts);
  EXPECT_TRUE(forecast.fits());
  EXPECT_EQ(forecast.line(), GiB);
  EXPECT_EQ(forecast.peak(), facts.peak_bytes);
  EXPECT_EQ(forecast.smallest_line(), 11 * MiB);
  EXPECT_DOUBLE_EQ(forecast.slowdown(), 0);
  EXPECT_TRUE(forecast.is_bit_identical());
  EXPECT_EQ(forecast.micro_batches(), 1);
  EXPECT_TRUE(forecast.remedies().empty());
  EXPECT_EQ(forecast.text(), plan_text(facts));
  EXPECT_EQ(forecast.json(), plan_json(facts));
}

TEST(Forecast, OfMicroBatchesAndOfWhatChangesResults) {
  const Planned planned(4);
  const Forecast cut = make_forecast(planned.facts());
  EXPECT_EQ(cut.micro_batches(), 4);
  EXPECT_FALSE(cut.is_bit_identical());
  const Planned whole;
  PlanFacts facts = whole.facts();
  facts.changes.state_bits = 8;
  EXPECT_FALSE(make_forecast(facts).is_bit_identical());
}

TEST(Forecast, OfARefusalIsAnAnswer) {
  const Forecast forecast = make_forecast(refusal(), remedies());
  EXPECT_FALSE(forecast.fits());
  EXPECT_EQ(forecast.line(), 10 * MiB);
  EXPECT_EQ(forecast.peak(), 12 * MiB + 3);
  EXPECT_EQ(forecast.smallest_line(), refusal().smallest_line);
  EXPECT_FALSE(forecast.is_bit_identical());
  EXPECT_EQ(forecast.micro_batches(), 0);
  ASSERT_EQ(forecast.remedies().size(), 2U);
  EXPECT_EQ(forecast.remedies()[1].text(), "batch 4: the largest batch found that fits: other results");
  EXPECT_NEAR(forecast.remedies()[0].slowdown(), 25, 1e-9);
  EXPECT_TRUE(forecast.remedies()[1].changes_results());
  EXPECT_THAT(forecast.text(), HasSubstr("does not fit: needs 12,582,915 bytes"));
  EXPECT_EQ(nlohmann::json::parse(forecast.json())["fits"], false);
}

}  // namespace
}  // namespace plimsoll::report
