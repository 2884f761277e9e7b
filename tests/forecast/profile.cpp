#include "forecast/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "forecast/contents.h"
#include "train/small_data.h"

namespace plimsoll::forecast {
namespace {

using ::testing::HasSubstr;
using testing::small_spec;

TEST(Profile, RowsAddUpToTheStep) {
  train::Spec spec = small_spec();
  spec.purpose = train::Purpose::Profile;
  spec.profile_steps = 3;
  const auto training = train::make_training(spec);
  const report::Profile profile = measure_profile(*training, spec.profile_steps, 4);
  EXPECT_EQ(profile.model, "mlp");
  EXPECT_EQ(profile.runs, 3);
  EXPECT_EQ(profile.longest.size(), 4U);
  EXPECT_LE(profile.fastest_step_ns, profile.step_ns);
  EXPECT_LE(profile.step_ns, profile.slowest_step_ns);
  EXPECT_GT(profile.peak.flops_per_s, 1e8);
  double predicted = 0;
  for (const report::ProfileRow& row : profile.operators) predicted += row.predicted_ns;
  EXPECT_NEAR(predicted, profile.predicted_ns, 1e-6 * predicted);
  EXPECT_THAT(report::profile_text(profile), HasSubstr("mlp · batch 8 · step "));
  const auto json = nlohmann::json::parse(report::profile_json(profile));
  EXPECT_EQ(json["tasks"].size(), 4U);
  EXPECT_EQ(json["operators"].size(), profile.operators.size());
  std::string trace;
  const session::PlannedStep& step = training->main_step();
  report::write_trace(profile, step.program, step.plan, [&](std::string_view text) { trace += text; });
  const auto events = nlohmann::json::parse(trace);
  EXPECT_GT(events.size(), step.plan.actions.size());
}

TEST(Profile, StopsWhenAsked) {
  train::Spec spec = small_spec();
  spec.purpose = train::Purpose::Profile;
  const auto training = train::make_training(spec);
  EXPECT_THROW(measure_profile(*training, 3, 0, [] { return true; }), Error);
}

TEST(Contents, OfABuiltInModel) {
  const report::ModelFacts facts = inspect_model(small_spec());
  EXPECT_EQ(facts.name, "mlp");
  EXPECT_EQ(facts.input, "f32[B,1,4,4]");
  EXPECT_GT(facts.optimiser_bytes, facts.weight_bytes) << "Adam keeps two numbers for each weight";
  EXPECT_GT(facts.operators.at("matmul"), 0);
  EXPECT_EQ(facts.variables.front().name, "mlp/fc1/kernel");
  EXPECT_THAT(model_graph_text(small_spec()), HasSubstr("plimsoll graph 1\nplaceholder input f32[B,1,4,4]"));
}

}  // namespace
}  // namespace plimsoll::forecast
