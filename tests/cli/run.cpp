// plimsoll train --run DIR, and what report and inspect make of it later.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "train/small_data.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class RunTest : public ::testing::Test {
 protected:
  std::string model() const {
    return fmt::format("mlp --image-size 4 --channels 1 --classes 3 --width 8 -b 8 --data {} --progress none",
                       data_.folder());
  }
  Outcome train(const std::string& more) const { return run_program(fmt::format("train {} {}", model(), more)); }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  const SmallData data_{64, 16};
  const TemporaryDirectory folder_;
};

TEST_F(RunTest, IsKeptAndShownLater) {
  const Outcome outcome = train(fmt::format("--epochs 3 --memory 64MiB --run {} --histograms 2", in("a/b")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* name : {"config.json", "plan.txt", "plan.json", "metrics.csv", "metrics.jsonl", "events"})
    EXPECT_TRUE(fs::exists(in("a/b/") + name)) << name;
  for (const char* verb : {"report", "inspect"}) {
    const Outcome shown = run_program(fmt::format("{} {}", verb, in("a/b")));
    EXPECT_EQ(shown.exit_code, 0) << shown.errors;
    for (const char* part : {"model          mlp", "memory         67108864", "planned", "epochs  3", "best    epoch"})
      EXPECT_THAT(shown.output, HasSubstr(part));
    const auto json = nlohmann::json::parse(run_program(fmt::format("{} {} --json", verb, in("a/b"))).output);
    EXPECT_EQ(json["rows"].size(), 3U);
    EXPECT_EQ(json["config"]["batch"], 8);
  }
  EXPECT_EQ(run_program("report /no/such").exit_code, 4);
}

TEST_F(RunTest, ResolvedConfigTrainsTheSame) {
  ASSERT_EQ(train(fmt::format("--epochs 2 --lr .01 --seed 5 --memory 64MiB --run {}", in("a"))).exit_code, 0);
  const auto config = nlohmann::json::parse(content_of(in("a/config.json")));
  EXPECT_EQ(config["lr"], 0.01);
  EXPECT_EQ(config["optimizer"], "adam");
  EXPECT_FALSE(config.contains("run"));
  const Outcome again =
      run_program(fmt::format("train --config {} --progress none --run {}", in("a/config.json"), in("b")));
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(content_of(in("b/config.json")), content_of(in("a/config.json")));
  const auto losses = [](const std::string& jsonl) {
    std::vector<double> found;
    std::istringstream lines(jsonl);
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line)["loss"]);
    return found;
  };
  EXPECT_EQ(losses(content_of(in("b/metrics.jsonl"))), losses(content_of(in("a/metrics.jsonl"))));
  // A flag counts more than the config.
  const Outcome other =
      run_program(fmt::format("train --config {} --progress none --run {} --epochs 1", in("a/config.json"), in("c")));
  ASSERT_EQ(other.exit_code, 0) << other.errors;
  EXPECT_EQ(nlohmann::json::parse(content_of(in("c/config.json")))["epochs"], 1);
}

TEST_F(RunTest, TheBestWeightsAreKeptAndSavedByName) {
  // Labels that follow from the numbers are learned soon, and forgotten at such a rate.
  ASSERT_EQ(train("--epochs 30 --lr 0.5 --keep 1 --run " + in("a")).exit_code, 0);
  const auto report = nlohmann::json::parse(run_program("report --all --json " + in("a")).output);
  ASSERT_EQ(report["best_by"], "val_loss");
  const double best = report["best"]["val_loss"], last = report["rows"].back()["val_loss"];
  constexpr double kRounding = 1e-5;  // eval takes larger batches
  ASSERT_LT(best, last - 100 * kRounding) << "the test can tell them apart";
  EXPECT_EQ(report["best_weights"], in("a/best.safetensors"));
  EXPECT_THAT(run_program("report " + in("a")).output, HasSubstr("its weights are in " + in("a/best.safetensors")));
  const auto loss_of = [&](const std::string& name, const std::string& which) {
    const Outcome saved = run_program(fmt::format("save --run {} {} -o {}", in("a"), which, in(name)));
    EXPECT_EQ(saved.exit_code, 0) << saved.errors;
    const Outcome scored = run_program(fmt::format("eval {} --json --data {}", in(name), data_.folder()));
    return nlohmann::json::parse(scored.output)["loss"].get<double>();
  };
  EXPECT_NEAR(loss_of("best", "--which best"), best, kRounding);
  EXPECT_NEAR(loss_of("last", "--which last"), last, kRounding);
  EXPECT_NEAR(loss_of("unsaid", ""), best, kRounding);
  std::filesystem::remove(in("a/best.safetensors"));
  const Outcome gone = run_program(fmt::format("save --run {} --which best -o {}", in("a"), in("x")));
  EXPECT_EQ(gone.exit_code, 4);
  EXPECT_THAT(gone.errors, HasSubstr("keeps no best weights"));
  EXPECT_THAT(run_program("report " + in("a")).output, HasSubstr("its weights were not kept"));
}

TEST_F(RunTest, TheBestEpochIsThatOfTheNumberThatEarlyStoppingWatches) {
  ASSERT_EQ(train("--epochs 30 --lr 0.5 --early-stopping val_accuracy:30 --run " + in("a")).exit_code, 0);
  const auto report = nlohmann::json::parse(run_program("report --all --json " + in("a")).output);
  EXPECT_EQ(report["best_by"], "val_accuracy");
  for (const auto& row : report["rows"]) EXPECT_LE(row["val_accuracy"], report["best"]["val_accuracy"]);
}

// What would lose the result at the end of the first epoch is found before the run is made.
TEST_F(RunTest, AnUnknownNumberToWatchIsRefusedFirst) {
  const Outcome outcome = train("--epochs 3 --early-stopping nothing:3 --run " + in("a"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("there is no 'nothing' to watch; this training has loss, accuracy"));
  EXPECT_THAT(outcome.errors, ::testing::Not(HasSubstr("epoch 1")));
  EXPECT_FALSE(fs::exists(in("a")));
}

TEST_F(RunTest, AFolderThatHoldsOneIsRefused) {
  ASSERT_EQ(train("--run " + in("a")).exit_code, 0);
  const std::string before = content_of(in("a/metrics.jsonl"));
  const Outcome again = train("--run " + in("a"));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.errors, HasSubstr("holds a run already; give another folder, or --resume to go on"));
  EXPECT_EQ(content_of(in("a/metrics.jsonl")), before);
}

TEST_F(RunTest, ARefusalLeavesNothingBehind) {
  EXPECT_EQ(train("--memory 4MiB --no-remedies --run " + in("a")).exit_code, 3);
  EXPECT_FALSE(fs::exists(in("a")));
  EXPECT_EQ(train("--run /proc/a").exit_code, 2);
  folder_.write("file", "");
  EXPECT_EQ(train(fmt::format("--run {}/x", in("file"))).exit_code, 2);
}

TEST_F(RunTest, AFullDiskStopsItAndKeepsTheWeights) {
  // 16 blocks of 512 bytes: room for config, plan and weights, not for hundreds of rows of metrics.
  const Outcome outcome =
      run_program(fmt::format("train {} --epochs 400 --run {} --save {}", model(), in("a"), in("w")),
                  "ulimit -f 16; trap '' XFSZ; exec");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("can't be written: File too large"));
  EXPECT_TRUE(fs::exists(in("w")));
  EXPECT_TRUE(content_of(in("a/metrics.csv")).ends_with("\n"));
  EXPECT_EQ(run_program("report " + in("a")).exit_code, 0);
}

TEST_F(RunTest, AKilledOneCanBeShown) {
  for (int round = 0; round < 5; ++round) {
    const std::string path = in(fmt::format("kill{}", round));
    run_program(fmt::format("train {} --epochs 1000000 --run {}", model(), path),
                fmt::format("timeout -s KILL {}", 0.3 + 0.13 * round));
    if (!fs::exists(path + "/config.json")) continue;
    const Outcome shown = run_program("report " + path);
    EXPECT_EQ(shown.exit_code, 0) << shown.errors;
    EXPECT_THAT(shown.output, HasSubstr("epochs  "));
  }
}

}  // namespace
}  // namespace plimsoll::testing
