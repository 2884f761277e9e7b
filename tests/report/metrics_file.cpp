#include "report/metrics_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "input/files.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"

namespace plimsoll::report {
namespace {

using Content = AppendFile::Content;
using testing::error_of;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

MetricsRow row(int64_t epoch, double loss, double val_loss = kNan) {
  return {epoch, 10 * epoch, {{"loss", loss}, {"val_loss", val_loss}, {"accuracy", 0.5}}};
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class MetricsFiles : public ::testing::Test {
 protected:
  testing::TemporaryDirectory folder_;
  const std::string csv_ = folder_.path() + "/metrics.csv", json_ = folder_.path() + "/metrics.jsonl";
};

TEST_F(MetricsFiles, CsvHasOneHeaderAndTheEpochFirst) {
  {
    MetricsCsv csv(csv_);
    csv.append(row(1, 0.1));
    csv.append(row(2, std::numeric_limits<double>::infinity(), 1e-30));
  }
  EXPECT_EQ(content_of(csv_), "epoch,step,accuracy,loss,val_loss\n1,10,0.5,0.1,NA\n2,20,0.5,inf,1e-30\n");
  {
    MetricsCsv csv(csv_, Content::Kept);
    csv.append({3, 30, {{"loss", 2}}});
  }
  EXPECT_THAT(content_of(csv_), HasSubstr("\n3,30,NA,2,NA\n"));
  MetricsCsv fresh(csv_, Content::Dropped, ';');
  fresh.append({1, 5, {{"a,b", 1}}});
  EXPECT_EQ(content_of(csv_), "epoch;step;a,b\n1;5;1\n");
}

TEST_F(MetricsFiles, CsvRefusesWhatItCantHold) {
  MetricsCsv csv(csv_);
  EXPECT_THAT(error_of([&] { csv.append({1, 1, {{"a,b", 1}}}); }), HasSubstr("metric 'a,b' can't be a column"));
  csv.append({1, 1, {{"loss", 1}}});
  EXPECT_THAT(error_of([&] { csv.append({2, 2, {{"auc", 1}}}); }), HasSubstr("has no column 'auc'"));
  EXPECT_EQ(content_of(csv_), "epoch,step,loss\n1,1,1\n");
  const std::string other = folder_.write("other.csv", "x,y\n1,2\n");
  EXPECT_THAT(error_of([&] { MetricsCsv(other, Content::Kept); }), HasSubstr("does not start with the columns epoch"));
  EXPECT_EQ(content_of(other), "x,y\n1,2\n");
}

TEST_F(MetricsFiles, JsonIsOneObjectALineAndIsReadBack) {
  {
    MetricsJson json(json_);
    json.append(row(1, 0.1));
    json.append({2, 20, {{"loss", -std::numeric_limits<double>::infinity()}}});
  }
  EXPECT_EQ(content_of(json_),
            "{\"epoch\":1,\"step\":10,\"loss\":0.1,\"val_loss\":null,\"accuracy\":0.5}\n"
            "{\"epoch\":2,\"step\":20,\"loss\":null}\n");
  const MetricsRow back = parse_json_line(R"({"epoch":1,"step":10,"loss":0.1,"val_loss":null})", "here");
  EXPECT_EQ(back.epoch, 1);
  EXPECT_EQ(back.step, 10);
  ASSERT_EQ(back.values.size(), 2U);
  EXPECT_EQ(back.values[0].name, "loss");
  EXPECT_EQ(back.values[0].value, 0.1);
  EXPECT_TRUE(std::isnan(back.values[1].value));
  for (const char* bad : {"", "7", "{}", "[1]", "{\"epoch\":1}", "{\"epoch\":\"1\",\"step\":2}", "{\"epoch\":1,"})
    EXPECT_THAT(error_of([&] { parse_json_line(bad, "here"); }), HasSubstr("here: '")) << bad;
  EXPECT_THAT(error_of([&] { parse_json_line(R"({"epoch":1,"step":2,"loss":"x"})", "here"); }),
              HasSubstr("here: 'loss' of epoch 1 is no number"));
}

TEST_F(MetricsFiles, AnUnfinishedLastLineIsCutOff) {
  folder_.write("metrics.csv", "epoch,step,loss\n1,10,0.5\n2,2");
  folder_.write("metrics.jsonl", "{\"epoch\":1,\"step\":10}\n{\"epo");
  MetricsCsv(csv_, Content::Kept).append({2, 20, {{"loss", 0.25}}});
  MetricsJson(json_, Content::Kept).append({2, 20, {}});
  EXPECT_EQ(content_of(csv_), "epoch,step,loss\n1,10,0.5\n2,20,0.25\n");
  EXPECT_EQ(content_of(json_), "{\"epoch\":1,\"step\":10}\n{\"epoch\":2,\"step\":20}\n");
  // Nothing but a part of the header, and one that spans several reads.
  folder_.write("metrics.csv", "epoch,st");
  MetricsCsv(csv_, Content::Kept).append({1, 10, {{"loss", 0.25}}});
  EXPECT_EQ(content_of(csv_), "epoch,step,loss\n1,10,0.25\n");
  folder_.write("metrics.jsonl", "{\"epoch\":1,\"step\":10}\n" + std::string(9000, 'x'));
  MetricsJson(json_, Content::Kept).append({2, 20, {}});
  EXPECT_EQ(content_of(json_), "{\"epoch\":1,\"step\":10}\n{\"epoch\":2,\"step\":20}\n");
}

TEST_F(MetricsFiles, LinesAfterAStepAreCutOff) {
  MetricsCsv csv(csv_);
  MetricsJson json(json_);
  const auto fill = [&](int64_t first) {
    for (int64_t epoch = first; epoch <= 1000; ++epoch) {
      csv.append(row(epoch, 1));
      json.append(row(epoch, 1));
    }
  };
  fill(1);
  const std::string whole_csv = content_of(csv_), whole_json = content_of(json_);
  for (const int64_t step : {4995, 9, 10'000}) {
    csv.truncate_after(step, step / 10 + 1);
    json.truncate_after(step, step / 10 + 1);
    const auto lines = [&](const std::string& path) { return std::ranges::count(content_of(path), '\n'); };
    EXPECT_EQ(lines(csv_), std::min<int64_t>(step / 10, 1000) + 1);
    EXPECT_EQ(lines(json_), std::min<int64_t>(step / 10, 1000));
    fill(step / 10 + 1);
    EXPECT_EQ(content_of(csv_), whole_csv);
    EXPECT_EQ(content_of(json_), whole_json);
  }
}

// A checkpoint may be written after the last step of an epoch that is then still to be ended.
TEST_F(MetricsFiles, TheRowOfAnEpochThatIsEndedAgainIsCutOff) {
  MetricsCsv csv(csv_);
  MetricsJson json(json_);
  for (int64_t epoch = 1; epoch <= 3; ++epoch) {
    csv.append({epoch, 10 * epoch, {{"loss", 1}}});
    json.append({epoch, 10 * epoch, {}});
  }
  csv.truncate_after(20, 2);
  json.truncate_after(20, 2);
  EXPECT_EQ(content_of(csv_), "epoch,step,loss\n1,10,1\n");
  EXPECT_EQ(content_of(json_), "{\"epoch\":1,\"step\":10}\n");
}

TEST_F(MetricsFiles, DamagedLinesAreCutOffWithThoseBehind) {
  folder_.write("metrics.csv", "epoch,step,loss\n1,10,0.5\nnonsense\n3,30,1\n");
  folder_.write("metrics.jsonl", "{\"epoch\":1,\"step\":10}\nnonsense\n{\"epoch\":3,\"step\":30}\n");
  MetricsCsv(csv_, Content::Kept).truncate_after(100, 11);
  MetricsJson(json_, Content::Kept).truncate_after(100, 11);
  EXPECT_EQ(content_of(csv_), "epoch,step,loss\n1,10,0.5\n");
  EXPECT_EQ(content_of(json_), "{\"epoch\":1,\"step\":10}\n");
  folder_.write("metrics.jsonl", std::string(2 * kLongestLine, 'x') + "\n");
  EXPECT_THAT(error_of([&] { MetricsJson(json_, Content::Kept).truncate_after(1, 1); }),
              HasSubstr("is longer than 64 KiB"));
}

TEST_F(MetricsFiles, AFullDiskLeavesWholeLines) {
  MetricsCsv csv(csv_);
  csv.append(row(1, 0.5));
  const std::string before = content_of(csv_);
  {
    const testing::FileSizeLimit limit(static_cast<Bytes>(before.size()) + 5);
    EXPECT_THAT(error_of([&] { csv.append(row(2, 0.5)); }), HasSubstr("free some space"));
  }
  EXPECT_EQ(content_of(csv_), before);
  csv.append(row(2, 0.5));
  EXPECT_EQ(content_of(csv_), before + "2,20,0.5,0.5,NA\n");
}

// A child appends as fast as it can until it is killed: afterwards the files hold rows 1 to n and nothing else.
TEST_F(MetricsFiles, AreWholeAfterAKill) {
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove(csv_);
    std::filesystem::remove(json_);
    const pid_t child = ::fork();
    if (child == 0) {
      MetricsCsv csv(csv_);
      MetricsJson json(json_);
      for (int64_t epoch = 1;; ++epoch) {
        csv.append(row(epoch, 1.0 / static_cast<double>(epoch)));
        json.append(row(epoch, 1.0 / static_cast<double>(epoch)));
      }
    }
    while (content_of(json_).empty()) ::usleep(100);  // it has begun
    ::usleep(700 * static_cast<useconds_t>(round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    MetricsCsv(csv_, Content::Kept);  // as a run that goes on
    MetricsJson(json_, Content::Kept);
    int64_t rows = 0;
    for_each_line(json_, [&](std::string_view line, Bytes) {
      EXPECT_EQ(parse_json_line(line, json_).epoch, ++rows);
      return true;
    });
    int64_t csv_rows = -1;  // the header
    for_each_line(csv_, [&](std::string_view line, Bytes) {
      const std::string start = ++csv_rows == 0 ? "epoch,step," : fmt::format("{},{},", csv_rows, 10 * csv_rows);
      EXPECT_THAT(std::string(line), ::testing::StartsWith(start));
      return true;
    });
    EXPECT_GT(rows, 0);
    EXPECT_GE(csv_rows, rows);
    EXPECT_TRUE(content_of(csv_).empty() || content_of(csv_).ends_with("\n"));
  }
}

}  // namespace
}  // namespace plimsoll::report
