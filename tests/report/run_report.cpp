#include "report/run_report.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "input/files.h"
#include "support/error_of.h"

namespace plimsoll::report {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

class RunReport : public ::testing::Test {
 protected:
  RunReport() { folder_.write("config.json", R"({"model": "lenet", "without": ["masks", "spill"]})"); }
  RunFacts read(size_t most = 20) const { return read_run(folder_.path(), most); }
  const testing::TemporaryDirectory folder_;
};

TEST_F(RunReport, ShowsConfigPlanEpochsBestAndCheckpoints) {
  folder_.write("plan.txt", "plan    lenet\n");
  folder_.write("plan.json", R"({"model": "lenet"})");
  folder_.write("metrics.jsonl",
                "{\"epoch\":1,\"step\":10,\"loss\":2.5,\"val_loss\":1.25,\"line_bytes\":64}\n"
                "{\"epoch\":2,\"step\":20,\"loss\":2,\"val_loss\":0.5}\n"
                "{\"epoch\":3,\"step\":30,\"loss\":1,\"val_loss\":0.75}\n{\"epoch\":4,\"st");
  std::filesystem::create_directories(folder_.path() + "/checkpoints/000002-step-20");
  std::filesystem::create_directories(folder_.path() + "/checkpoints/000001-step-10");
  const RunFacts facts = read();
  EXPECT_EQ(facts.epochs, 3);
  const std::string text = run_text(facts, "--all");
  for (const char* part : {"model          lenet", "without        masks,spill", "plan    lenet\n", "val_loss",
                           "best    epoch 2: val_loss 0.5", "  000001-step-10\n  000002-step-20\n"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("line_bytes")));
  const auto json = nlohmann::json::parse(run_json(facts));
  EXPECT_EQ(json["config"]["model"], "lenet");
  EXPECT_EQ(json["plan"]["model"], "lenet");
  EXPECT_EQ(json["rows"].size(), 3U);
  EXPECT_EQ(json["rows"][0]["line_bytes"], 64);
  EXPECT_EQ(json["best"]["epoch"], 2);
  EXPECT_EQ(json["best_by"], "val_loss");
  EXPECT_EQ(json["checkpoints"][1], "000002-step-20");
}

TEST_F(RunReport, OfManyEpochsShowsBothEnds) {
  std::string rows;
  for (int i = 1; i <= 100; ++i) rows += fmt::format("{{\"epoch\":{},\"step\":{},\"loss\":{}}}\n", i, i, 100 - i % 60);
  folder_.write("metrics.jsonl", rows);
  const RunFacts facts = read(5);
  EXPECT_EQ(facts.epochs, 100);
  EXPECT_EQ(facts.first.size(), 3U);
  ASSERT_EQ(facts.last.size(), 2U);
  EXPECT_EQ(facts.last[1].epoch, 100);
  EXPECT_EQ(facts.best->epoch, 59);
  EXPECT_THAT(run_text(facts, "--all"), HasSubstr("... and 95 more (--all shows them)"));
  EXPECT_EQ(read(1000).first.size() + read(1000).last.size(), 100U);
}

TEST_F(RunReport, OfARunThatHasJustBegun) {
  const std::string text = run_text(read(), "--all");
  EXPECT_THAT(text, HasSubstr("epochs  none is over"));
  EXPECT_THAT(text, HasSubstr("checkpoints  none"));
  EXPECT_TRUE(nlohmann::json::parse(run_json(read()))["plan"].is_null());
}

TEST_F(RunReport, NamesWhatIsDamaged) {
  folder_.write("metrics.jsonl", "{\"epoch\":1,\"step\":10}\nnonsense\n");
  EXPECT_THAT(error_of([&] { read(); }), HasSubstr("metrics.jsonl: line 2: 'nonsense' is no line of metrics"));
  folder_.write("config.json", "{");
  EXPECT_THAT(error_of([&] { read(); }), HasSubstr("config.json: parse error"));
  EXPECT_THAT(error_of([] { read_run("/tmp/no/such", 20); }), HasSubstr("/tmp/no/such: holds no run"));
}

}  // namespace
}  // namespace plimsoll::report
