#include <plimsoll/callback.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoints/run_directory.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"
#include "train/loop.h"
#include "train/small_data.h"

namespace plimsoll::checkpoints {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::SmallData;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(content_of(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
  return files;
}

class LogFiles : public ::testing::Test {
 protected:
  History run(int64_t epochs, const Callbacks& callbacks, const std::optional<train::RunState>& from = {}) {
    const auto training = train::make_training(data_.spec());
    train::TrainingLoop loop(*training, {.epochs = epochs}, callbacks);
    if (from) loop.restore(*from);
    loop.open();
    if (from)
      training->session->set_step_count(from->history.empty() ? 0 : 8 * static_cast<int64_t>(from->history.size()));
    const History history = loop.run();
    state_ = loop.state();
    return history;
  }
  std::string in(const char* name) const { return folder_.path() + "/" + name; }

  const SmallData data_{64, 16};
  const TemporaryDirectory folder_;
  train::RunState state_;
};

TEST_F(LogFiles, HaveARowForEachEpoch) {
  const History history = run(3, {csv_log(in("m.csv")), json_log(in("m.jsonl")), event_files(in("events"))});
  const auto csv = lines_of(in("m.csv")), json = lines_of(in("m.jsonl"));
  ASSERT_EQ(csv.size(), 4U);
  EXPECT_THAT(csv[0], StartsWith("epoch,step,accuracy,learning_rate,line_bytes,loss,measured_peak_bytes"));
  EXPECT_THAT(csv[3], StartsWith("3,24,"));
  ASSERT_EQ(json.size(), 3U);
  const auto last = nlohmann::json::parse(json[2]);
  EXPECT_EQ(last["epoch"], 3);
  EXPECT_EQ(last["step"], 24);
  EXPECT_EQ(last["val_loss"], history["val_loss"].back());
  EXPECT_EQ(last["line_bytes"], GiB);
  const auto events = files_in(in("events"));
  ASSERT_EQ(events.size(), 1U);
  for (const char* tag : {"loss", "val_accuracy", "memory/planned_peak_mib", "memory/measured_peak_mib"})
    EXPECT_THAT(content_of(events[0]), HasSubstr(tag));
}

TEST_F(LogFiles, EventsHoldTextsStepsAndWeights) {
  EventFilesOptions options{.seconds_between = 1e-9, .histogram_epochs = 2, .texts = {{"plan", "batch whole"}}};
  run(1, {event_files(in("events"), options)});
  std::string events = content_of(files_in(in("events")).at(0));
  EXPECT_THAT(events, HasSubstr("batch whole"));
  EXPECT_THAT(events, HasSubstr("running/loss"));
  EXPECT_THAT(events, ::testing::Not(HasSubstr("mlp/dense/weight"))) << "epoch 1 is no second one";
  std::filesystem::remove_all(in("events"));
  run(2, {event_files(in("events"), options)});
  events = content_of(files_in(in("events")).at(0));
  const auto training = train::make_training(data_.spec());
  for (const graph::Variable& variable : training->graph.body().variables())
    if (variable.role() == VariableRole::Weight) {
      EXPECT_THAT(events,
                  HasSubstr(std::string(training->graph.body().name(training->graph.body().value(variable.value)))));
    }
  EXPECT_THAT(error_of([] { event_files("x", {.seconds_between = -1}); }), HasSubstr("must not be negative"));
}

TEST_F(LogFiles, EventsHoldFrozenWeightsOfFewerBits) {
  train::Spec spec = data_.spec();
  spec.freeze = {.patterns = {"*/fc1/*"}, .type = DType::I8};
  const auto training = train::make_training(spec);
  train::TrainingLoop loop(*training, {.epochs = 2}, {event_files(in("events"), {.histogram_epochs = 1})});
  loop.open();
  EXPECT_FALSE(loop.run().was_stopped());
  EXPECT_THAT(content_of(files_in(in("events")).at(0)), HasSubstr("fc1/kernel"));
}

TEST_F(LogFiles, OfATrainingAreReplacedOrAppendedTo) {
  run(2, {csv_log(in("m.csv")), json_log(in("m.jsonl"))});
  run(1, {csv_log(in("m.csv"), {.append = true}), json_log(in("m.jsonl"), true)});
  EXPECT_EQ(lines_of(in("m.csv")).size(), 4U);
  EXPECT_EQ(lines_of(in("m.jsonl")).size(), 3U);
  const Callbacks again{csv_log(in("m.csv")), json_log(in("m.jsonl"))};
  run(1, again);
  run(1, again);  // the same callback writes for one training after the other
  EXPECT_EQ(lines_of(in("m.csv")).size(), 2U);
  EXPECT_EQ(lines_of(in("m.jsonl")).size(), 1U);
}

TEST_F(LogFiles, OfAResumedTrainingLoseTheRowsOfLaterSteps) {
  const Callbacks logs{csv_log(in("m.csv")), json_log(in("m.jsonl")), event_files(in("events"))};
  run(2, logs);
  const train::RunState after_two = state_;
  const auto two = lines_of(in("m.jsonl"));
  run(5, logs);
  ASSERT_EQ(lines_of(in("m.jsonl")).size(), 5U);
  run(3, logs, after_two);
  const auto csv = lines_of(in("m.csv")), json = lines_of(in("m.jsonl"));
  ASSERT_EQ(csv.size(), 4U);
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(nlohmann::json::parse(json[1])["loss"], nlohmann::json::parse(two[1])["loss"]);
  EXPECT_THAT(json[2], StartsWith("{\"epoch\":3,\"step\":24,"));
  EXPECT_EQ(files_in(in("events")).size(), 3U);
}

TEST_F(LogFiles, ThatCantBeWrittenStopTheTrainingAndKeepWhatItLearned) {
  const Callbacks logs{csv_log(in("m.csv"))};
  const auto training = train::make_training(data_.spec());
  train::TrainingLoop loop(*training, {.epochs = 5}, logs);
  loop.open();
  History history;
  {
    const testing::FileSizeLimit limit(500);
    history = loop.run();
  }
  EXPECT_THAT(history.stop_reason, HasSubstr("m.csv' can't be written: File too large"));
  EXPECT_TRUE(history.has_trained());
  EXPECT_LT(history.epochs.size(), 5U);
  const std::string csv = content_of(in("m.csv"));
  EXPECT_TRUE(csv.ends_with('\n'));
  EXPECT_THAT(error_of([&] { expect_logs_written(logs); }), HasSubstr("m.csv' can't be written"));
  EXPECT_NO_THROW(expect_logs_written({json_log("x"), event_files("y")}));
}

TEST_F(LogFiles, RefuseBeforeTheFirstStep) {
  EXPECT_THAT(error_of([&] { run(1, {csv_log("/no/such/m.csv")}); }), HasSubstr("'/no/such/m.csv' can't be written"));
  folder_.write("file", "");
  EXPECT_THAT(error_of([&] { run(1, {event_files(in("file"))}); }), HasSubstr("can't be made"));
}

TEST_F(LogFiles, ARunDirectoryIsMadeOnce) {
  const auto training = train::make_training(data_.spec());
  const std::string path = in("runs/a");
  const report::Config config{{"model", report::ConfigEntry::Kind::Text, {"mlp"}}};
  RunDirectory(path, false);
  EXPECT_FALSE(std::filesystem::exists(in("runs"))) << "a refusal of the plan leaves nothing behind";
  RunDirectory(path, false).create({config, *training});
  EXPECT_EQ(report::read_config(path + "/config.json"), config);
  EXPECT_THAT(content_of(path + "/plan.txt"), StartsWith("plan    mlp"));
  EXPECT_EQ(nlohmann::json::parse(content_of(path + "/plan.json"))["model"], "mlp");
  EXPECT_THAT(error_of([&] { RunDirectory(path, false); }), HasSubstr("holds a run already; give another folder"));
  EXPECT_NO_THROW(RunDirectory(path, true));
  EXPECT_THAT(error_of([&] { RunDirectory(in("runs/b"), true); }), HasSubstr("holds no run that could be resumed"));
  folder_.write("file", "");
  EXPECT_THAT(error_of([&] { RunDirectory(in("file/a"), false); }), HasSubstr("file' is no folder"));
  EXPECT_THAT(error_of([&] { RunDirectory("", false); }), HasSubstr("name is empty"));
}

}  // namespace
}  // namespace plimsoll::checkpoints
