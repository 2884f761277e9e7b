#include "report/training_report.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace plimsoll::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ProgressFacts progress(double accuracy) {
  return {.epoch = 2,
          .epochs = 5,
          .step = 7,
          .steps_per_epoch = 40,
          .loss = 0.25,
          .accuracy = accuracy,
          .samples_per_s = 1234.5,
          .seconds_left = 3725,
          .resident_bytes = 30 * MiB + 1,
          .line_bytes = 48 * MiB};
}

EpochFacts epoch(int64_t steps, double test_loss) {
  return {.epoch = 2,
          .epochs = 5,
          .steps = steps,
          .steps_per_epoch = 40,
          .loss = 0.25,
          .accuracy = kNan,
          .test_loss = test_loss,
          .test_accuracy = kNan,
          .seconds = 61,
          .resident_bytes = 30 * MiB,
          .peak_resident_bytes = 40 * MiB,
          .line_bytes = 48 * MiB};
}

void expect_shorter_and_shorter(const std::vector<std::string>& texts) {
  ASSERT_GT(texts.size(), 3U);
  for (size_t i = 1; i < texts.size(); ++i) EXPECT_LE(texts[i].size(), texts[i - 1].size()) << texts[i];
  EXPECT_LT(texts.back().size(), 30U);
}

TEST(TrainingReport, ProgressInAllLengths) {
  const std::vector<std::string> texts = progress_texts(progress(0.5));
  EXPECT_EQ(texts.front(),
            "epoch 2/5  step 7/40  loss 0.2500  acc 50.00 %  1234 samples/s  1:02:05 left  mem 31/48 MiB");
  EXPECT_EQ(texts.back(), "2/5 7/40");
  expect_shorter_and_shorter(texts);
  EXPECT_THAT(progress_texts(progress(kNan)).front(), Not(HasSubstr("acc")));
}

TEST(TrainingReport, ProgressAsJsonHasNullForWhatIsNotMeasured) {
  const auto json = nlohmann::json::parse(progress_json(progress(kNan)));
  EXPECT_EQ(json["event"], "progress");
  EXPECT_EQ(json["step"], 7);
  EXPECT_TRUE(json["accuracy"].is_null());
  EXPECT_EQ(json["line_bytes"], 48 * MiB);
}

TEST(TrainingReport, AnEpochNamesItsTestAndWhereItWasCut) {
  expect_shorter_and_shorter(epoch_texts(epoch(39, 0.5)));
  EXPECT_EQ(epoch_texts(epoch(40, 0.5)).front(), "epoch 2/5  loss 0.2500  ·  test loss 0.5000  ·  1:01  mem 30/48 MiB");
  EXPECT_EQ(epoch_texts(epoch(39, kNan)).front(), "epoch 2/5  39 of 40 steps  loss 0.2500  ·  1:01  mem 30/48 MiB");
  const auto json = nlohmann::json::parse(epoch_json(epoch(39, kNan)));
  EXPECT_EQ(json["steps"], 39);
  EXPECT_TRUE(json["test_loss"].is_null());
  EXPECT_EQ(json["peak_resident_bytes"], 40 * MiB);
}

TEST(TrainingReport, TheStartNamesWeightsAndRate) {
  const StartFacts facts{"w.safetensors", 8, 0, 120, 0.001F, "of the file"};
  EXPECT_EQ(start_text(facts),
            "weights from 'w.safetensors': 8 tensors, no optimiser state, 120 steps done, rate 0.001 (of the file)\n");
  const auto json = nlohmann::json::parse(start_json(facts));
  EXPECT_EQ(json["learning_rate"], static_cast<double>(0.001F));
  EXPECT_EQ(json["state_tensors"], 0);
}

TEST(TrainingReport, TheEndComparesPlannedAndMeasured) {
  EndFacts facts{true, 0.5, {}, 10 * MiB, 9 * MiB, 12 * MiB};
  EXPECT_THAT(end_text(facts), HasSubstr("measured 9,437,184 bytes (9 MiB) (VmHWM)"));
  EXPECT_THAT(end_text(facts), Not(HasSubstr("accuracy")));
  EXPECT_FALSE(nlohmann::json::parse(end_json(facts)).contains("test_loss"));
  facts.test = ScoreFacts{0.3, 0.75, 100};
  EXPECT_THAT(end_text(facts), HasSubstr("test    accuracy 75.00 % on 100 samples\n"));
  EXPECT_EQ(nlohmann::json::parse(end_json(facts))["test_accuracy"], 0.75);
}

TEST(TrainingReport, AnEvaluationWithoutRightAnswersHasNoAccuracy) {
  EXPECT_THAT(evaluation_text({0.5, 0.25, 10}, MiB, 2 * MiB), HasSubstr("correct 25.00 %"));
  EXPECT_THAT(evaluation_text({0.5, kNan, 10}, MiB, 2 * MiB), Not(HasSubstr("correct")));
  InputFacts data;
  data.kind = "a CSV file";
  data.elements = 10;
  const auto json = nlohmann::json::parse(evaluation_json({0.5, kNan, 10}, data, MiB, 2 * MiB));
  EXPECT_FALSE(json.contains("accuracy"));
  EXPECT_EQ(json["data"]["kind"], "a CSV file");
  EXPECT_EQ(json["data"]["elements"], 10);
}

}  // namespace
}  // namespace plimsoll::report
