// train --schedule and --early-stopping, alone and with what else steers a run.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Steering : public ::testing::Test {
 protected:
  Outcome start(const std::string& run, const std::string& more) const { return run_program(small.command(run, more)); }
  Outcome go_on(const std::string& run, const std::string& more = "") const {
    return run_program(small.resume(run, more));
  }
  // A number of each epoch.
  std::vector<double> numbers(const std::string& run, const std::string& name) const {
    std::vector<double> found;
    std::istringstream lines(SmallRun::content(small.in(run + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line)[name]);
    return found;
  }
  std::string saved(const std::string& name) const { return SmallRun::content(small.in(name)); }
  std::string save_flag(const std::string& name) const { return " --save " + small.in(name); }
  const SmallRun small;
};

TEST_F(Steering, AScheduleIsFollowedByUpdates) {
  ASSERT_EQ(start("run", "--epochs 3 --lr 0.01 --schedule piecewise:8=0.001,16=0.0001").exit_code, 0);
  EXPECT_THAT(numbers("run", "learning_rate"),
              ElementsAre(DoubleNear(0.01, 1e-8), DoubleNear(1e-3, 1e-8), DoubleNear(1e-4, 1e-8)));
  // An update for each two batches: half as many updates.
  ASSERT_EQ(start("slow", "--epochs 2 --lr 0.01 --accumulate 2 --schedule piecewise:4=0.001").exit_code, 0);
  EXPECT_THAT(numbers("slow", "learning_rate"), ElementsAre(DoubleNear(0.01, 1e-8), DoubleNear(1e-3, 1e-8)));
}

TEST_F(Steering, AScheduleThatMakesNoSenseIsRefused) {
  const std::pair<const char*, const char*> cases[] = {{"cosin:steps=3", "there is no schedule 'cosin'; known are"},
                                                       {"cosine", "steps"},
                                                       {"cosine:steps=-3", "steps"},
                                                       {"cosine:steps=10,speed=3", "speed"},
                                                       {"piecewise:8=x", "x"}};
  for (const auto& [text, message] : cases) {
    const Outcome outcome = start("run", fmt::format("--schedule {}", text));
    EXPECT_EQ(outcome.exit_code, 2) << text;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << text;
    EXPECT_TRUE(outcome.output.empty()) << "before anything is planned";
  }
  EXPECT_FALSE(fs::exists(small.in("run")));
}

// A rate that changes nothing: no epoch is better than the first.
constexpr const char* kStill = "--optimizer sgd --lr 1e-12 --epochs 50 ";

TEST_F(Steering, EarlyStoppingEndsTheRun) {
  const Outcome stopped = start("run", std::string(kStill) + "--early-stopping 2");
  EXPECT_EQ(stopped.exit_code, 0) << stopped.errors;
  EXPECT_THAT(stopped.output, HasSubstr("stopped val_loss did not improve in 2 epochs; the best was "));
  EXPECT_THAT(stopped.output, HasSubstr(" in epoch 1\n"));
  EXPECT_EQ(numbers("run", "epoch").size(), 3U);
  EXPECT_TRUE(fs::exists(small.in("run/best.safetensors")));
  // The run is over, unless it is given more patience.
  EXPECT_EQ(go_on("run").exit_code, 0);
  EXPECT_EQ(numbers("run", "epoch").size(), 3U);
  const Outcome more = go_on("run", "--early-stopping 4 --json");
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_EQ(numbers("run", "epoch").size(), 5U);
  EXPECT_THAT(more.event("end").value("stop_reason", ""), HasSubstr("in 4 epochs"));
}

TEST_F(Steering, EarlyStoppingEndsWithTheBestWeights) {
  // Labels have nothing to do with the numbers: a large rate soon makes the loss worse.
  const Outcome outcome =
      start("run", "--lr 0.3 --epochs 60 --early-stopping val_accuracy:3 --json" + save_flag("end"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const std::vector<double> scores = numbers("run", "val_accuracy");
  ASSERT_GT(scores.size(), 3U);
  ASSERT_LT(scores.size(), 60U);
  EXPECT_EQ(outcome.event("end").value("test_accuracy", 0.0), std::ranges::max(scores));
  EXPECT_TRUE(saved("end") == saved("run/best.safetensors"));
  // Without a run the best weights are a temporary file.
  const std::string command = small.command("x", "--lr 0.3 --epochs 60 --early-stopping val_accuracy:3");
  const std::string plain = command.substr(0, command.find("--run")) + command.substr(command.find("--lr"));
  ASSERT_EQ(run_program(plain + save_flag("plain")).exit_code, 0);
  EXPECT_TRUE(saved("plain") == saved("end"));
}

TEST_F(Steering, EarlyStoppingRefusesWhatItCanNotWatch) {
  for (const char* text : {"x", "0", "-1", "3.5", "val_loss:", ":3"}) {
    const Outcome outcome = start("run", fmt::format("--early-stopping={}", text));
    EXPECT_EQ(outcome.exit_code, 2) << text;
    EXPECT_THAT(outcome.errors, HasSubstr("is no number of epochs")) << text;
  }
  const Outcome unknown = start("other", "--early-stopping val_los:3 --epochs 1");
  EXPECT_EQ(unknown.exit_code, 2) << unknown.output;
  EXPECT_THAT(unknown.errors, HasSubstr("there is no 'val_los' to watch; this training has loss"));
  const Outcome blind = run_program(
      fmt::format("train mlp --image-size 4 --channels 1 --classes 3 --width 8 --batch 8 --early-stopping 3 --data {}",
                  small.in("train.csv")));
  EXPECT_EQ(blind.exit_code, 2) << blind.output;
  EXPECT_THAT(blind.errors, HasSubstr("no data to validate with: give --val PATH"));
}

TEST_F(Steering, AStoppedRunGoesOnAsIfItHadNot) {
  const std::string flags =
      "--epochs 6 --lr 0.02 --schedule cosine:steps=40,warmup=5 --accumulate 3 --policy mixed_float16 --state-bits 8 "
      "--early-stopping 5 ";
  ASSERT_EQ(start("whole", flags + save_flag("whole.st")).exit_code, 0);
  ASSERT_EQ(start("parts", flags + "--steps 21").exit_code, 0);
  const Outcome rest = go_on("parts", "--steps 0" + save_flag("parts.st"));
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  ASSERT_FALSE(saved("whole.st").empty());
  EXPECT_TRUE(saved("parts.st") == saved("whole.st"));
  EXPECT_EQ(numbers("parts", "learning_rate"), numbers("whole", "learning_rate"));
  EXPECT_EQ(numbers("parts", "val_loss"), numbers("whole", "val_loss"));
}

}  // namespace
}  // namespace plimsoll::testing
