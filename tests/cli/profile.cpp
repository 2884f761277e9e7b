// plimsoll profile: its table, its JSON and its trace.
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/program.h"

namespace plimsoll::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string temp(const std::string& name) { return ::testing::TempDir() + "profile_" + name; }

TEST(Profile, JsonAddsUpToTheStep) {
  const Outcome outcome = run_program("profile lenet --batch 16 --steps 3 --top 4 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json profile = json::parse(outcome.output);
  EXPECT_EQ(profile["model"], "lenet");
  EXPECT_EQ(profile["runs"], 3);
  EXPECT_GT(profile["peak_flops_per_s"], 1e9);
  EXPECT_GT(profile["peak_bytes_per_s"], 1e8);
  EXPECT_LE(profile["fastest_step_ns"], profile["step_ns"]);
  EXPECT_LE(profile["step_ns"], profile["slowest_step_ns"]);
  EXPECT_GT(profile["measured_peak_bytes"], 0);
  EXPECT_LE(profile["measured_peak_bytes"], profile["planned_peak_bytes"]);
  double predicted = 0, fastest = 0;
  std::set<std::string> operators;
  for (const json& row : profile["operators"]) {
    predicted += row["predicted_ns"].get<double>();
    fastest += row["fastest_ns"].get<double>();
    operators.insert(row["operator"]);
    EXPECT_GT(row["bytes"], 0) << row;
    EXPECT_LE(row["fastest_ns"], row["ns"]) << row;
  }
  EXPECT_NEAR(predicted, profile["predicted_step_ns"], 1e-6 * predicted);
  EXPECT_LE(fastest, profile["fastest_step_ns"]);
  EXPECT_TRUE(operators.contains("conv2d_kernel_grad"));
  ASSERT_EQ(profile["tasks"].size(), 4U);
  EXPECT_GE(profile["tasks"][0]["ns"], profile["tasks"][1]["ns"]);
}

TEST(Profile, TableSaysWhatIsComparedWithWhat) {
  const Outcome outcome = run_program("profile mlp --batch 8 --steps 2 --top 3");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* word : {"peak of this machine", "process planned", "pred./meas", "GFLOP/s", "matmul", "mlp/fc1"})
    EXPECT_THAT(outcome.output, HasSubstr(word));
}

TEST(Profile, TraceHasATrackForEachTag) {
  const std::string file = temp("trace.json");
  const Outcome outcome = run_program("profile lenet --batch 8 --steps 2 --trace " + file);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  std::ifstream in(file);
  const json trace = json::parse(in);
  ASSERT_TRUE(trace.is_array());
  std::map<int, std::string> tracks;
  std::set<std::string> used;
  double last_end = 0;
  int64_t counters = 0;
  for (const json& event : trace) {
    if (event["ph"] == "M" && event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "C") ++counters;
    if (event["ph"] != "X") continue;
    used.insert(tracks.at(event["tid"]));
    EXPECT_GE(event["ts"], last_end - 1e-3) << "events of one step follow each other";
    EXPECT_GE(event["dur"], 0);
    last_end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_TRUE(used.contains("activations"));
  EXPECT_TRUE(used.contains("gradients"));
  EXPECT_TRUE(used.contains("weights"));
  EXPECT_GT(counters, 10);
}

TEST(Profile, ATraceThatCantBeWrittenIsAnError) {
  const Outcome outcome = run_program("profile mlp --batch 8 --steps 1 --trace /no/such/folder/trace.json");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("/no/such/folder/trace.json"));
}

TEST(Profile, HoldsItsLine) {
  const Outcome free = run_program("profile lenet --batch 16 --steps 1 --json --memory 1GiB");
  ASSERT_EQ(free.exit_code, 0) << free.errors;
  const json profile = json::parse(free.output);
  EXPECT_LE(profile["measured_peak_bytes"], profile["line_bytes"]);
}

}  // namespace
}  // namespace plimsoll::testing
