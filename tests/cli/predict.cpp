// plimsoll predict: rows of CSV, JSON lines and npy files.
#include <cmath>
#include <cstring>
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

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kNet = "mlp --image-size 4 --channels 1 --classes 3 --width 8";
constexpr const char* kSmall = "mlp --image-size 4 --channels 1 --classes 3 --width 8 -b 8";

std::string read_all(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class PredictTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome trained = run_program(fmt::format(
        "train {} --data {} --epochs 20 --lr 0.02 --progress none --save {}", kSmall, data_.folder(), in("w")));
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  }
  Outcome predict(const std::string& data, const std::string& more = "") const {
    return run_program(fmt::format("predict {} --weights {} --data {} {}", kSmall, in("w"), data, more));
  }
  std::string in(const char* name) const { return folder_.path() + "/" + name; }

  const SmallData data_{64, 21};  // the last batch of 8 is not full
  const TemporaryDirectory folder_;
};

TEST_F(PredictTest, ABatchOfMoreThanAllSamplesTakesNoMoreThanTheyDo) {
  const auto predict_by = [&](const char* flags) {
    return run_program(fmt::format("predict {} {} --weights {} --data {}", kNet, flags, in("w"), data_.folder()));
  };
  const Outcome whole = predict_by("-b 21"), more = predict_by("-b 100000000 -m 32MiB");
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_EQ(more.output, whole.output);
  const Outcome scored =
      run_program(fmt::format("eval {} -b 100000000 -m 32MiB --weights {} --data {}", kNet, in("w"), data_.folder()));
  EXPECT_EQ(scored.exit_code, 0) << scored.errors;
  EXPECT_THAT(scored.output, HasSubstr("on 21 samples"));
}

TEST_F(PredictTest, CsvHasAClassAndProbabilitiesForEachSample) {
  const Outcome outcome = predict(data_.folder(), "--output " + in("p.csv"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, StartsWith("plan    mlp"));
  EXPECT_THAT(outcome.output, HasSubstr("wrote   21 samples to"));
  std::istringstream lines(read_all(in("p.csv")));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "sample,class,p0,p1,p2");
  int rows = 0;
  for (; std::getline(lines, line); ++rows) {
    int sample = -1, chosen = -1;
    double p[3] = {};
    ASSERT_EQ(std::sscanf(line.c_str(), "%d,%d,%lf,%lf,%lf", &sample, &chosen, p, p + 1, p + 2), 5) << line;
    EXPECT_EQ(sample, rows);
    EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-5);
    EXPECT_EQ(std::max_element(p, p + 3) - p, chosen);
  }
  EXPECT_EQ(rows, 21);
  // Without a file the same rows go to standard output, and the plan to standard error.
  const Outcome rows_only = predict(data_.folder());
  EXPECT_EQ(rows_only.output, read_all(in("p.csv")));
  EXPECT_THAT(rows_only.errors, StartsWith("plan    mlp"));
}

TEST_F(PredictTest, NpyHoldsTheOutputsOfTheSameSamples) {
  ASSERT_EQ(predict(data_.folder(), "--output " + in("p.npy")).exit_code, 0);
  const std::string npy = read_all(in("p.npy"));
  const size_t header = 10 + static_cast<unsigned char>(npy[8]) + 256U * static_cast<unsigned char>(npy[9]);
  EXPECT_THAT(npy.substr(0, header), HasSubstr("'descr': '<f4'"));
  EXPECT_THAT(npy.substr(0, header), HasSubstr("(21, 3"));
  ASSERT_EQ(npy.size(), header + 21 * 3 * sizeof(float));
  // The JSON lines have the classes and probabilities of these outputs.
  const Outcome json = predict(data_.folder(), "--json");
  std::istringstream lines(json.output);
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.value("event", "") != "prediction") continue;
    float logits[3];
    std::memcpy(logits, npy.data() + header + sizeof logits * row["sample"].get<size_t>(), sizeof logits);
    EXPECT_EQ(std::max_element(logits, logits + 3) - logits, row["class"]);
    const double ratio = row["probabilities"][1].get<double>() / row["probabilities"][0].get<double>();
    EXPECT_NEAR(ratio, std::exp(static_cast<double>(logits[1] - logits[0])), 1e-3 * ratio);
    ++found;
  }
  EXPECT_EQ(found, 21);
  EXPECT_EQ(json.event("predict")["samples"], 21);
}

TEST_F(PredictTest, InputsNeedNoLabels) {
  const Outcome labelled = predict(data_.folder()), alone = predict(data_.folder() + "/x_test.npy");
  ASSERT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_EQ(alone.output, labelled.output);
  EXPECT_EQ(
      run_program(fmt::format("eval {} --weights {} --data {}/x_test.npy", kSmall, in("w"), data_.folder())).exit_code,
      4);
}

TEST_F(PredictTest, KeepsItsLine) {
  const Outcome outcome = predict(data_.folder(), "--memory 40MiB --json --output " + in("p.npy"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_LE(outcome.event("predict")["measured_peak_bytes"], 40 << 20);
  EXPECT_EQ(predict(data_.folder(), "--memory 4MiB --no-remedies").exit_code, 3);
}

TEST_F(PredictTest, MistakesLeaveTheOldFile) {
  folder_.write("p.npy", "old");
  EXPECT_EQ(predict("/no/such", "--output " + in("p.npy")).exit_code, 4);
  EXPECT_EQ(predict(data_.folder(), "--on-corrupt skip:3 --output " + in("p.npy")).exit_code, 2);
  EXPECT_EQ(run_program(fmt::format("predict {} --width 9 --weights {} --data {} --output {}", kSmall, in("w"),
                                    data_.folder(), in("p.npy")))
                .exit_code,
            4);
  EXPECT_EQ(read_all(in("p.npy")), "old");
  const Outcome ending = predict(data_.folder(), "--output " + in("p.txt"));
  EXPECT_EQ(ending.exit_code, 2);
  EXPECT_THAT(ending.errors, HasSubstr("end with .npy or .csv"));
  EXPECT_EQ(predict(data_.folder(), "--output /no/such/p.npy").exit_code, 2);
}

}  // namespace
}  // namespace plimsoll::testing
