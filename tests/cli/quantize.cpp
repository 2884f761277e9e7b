// plimsoll quantize: from one model directory to a smaller one that every verb of inference takes.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "train/small_data.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

class Quantize : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome trained = run_program(
        fmt::format("train mlp --image-size 4 --channels 1 --classes 3 --width 64 -b 8 --data {} --epochs 2 --progress "
                    "none --save-model {}",
                    data_.folder(), in("net.plimsoll")));
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  Outcome quantize(const std::string& model, const std::string& more) const {
    return run_program(
        fmt::format("quantize {} --data {} -o {} {}", in(model), data_.folder(), in("small.plimsoll"), more));
  }

  const SmallData data_{64, 21};
  const TemporaryDirectory folder_;
};

TEST_F(Quantize, MakesASmallerModelThatOtherVerbsTake) {
  const Outcome made = quantize("net.plimsoll", "--all --calibration percentile --memory 64MiB --json");
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  const auto facts = nlohmann::json::parse(made.output);
  EXPECT_EQ(facts["samples"], 64);
  EXPECT_EQ(facts["layers"].size(), 3U);
  for (const auto& layer : facts["layers"]) EXPECT_EQ(layer["int8"], true) << layer["name"];
  EXPECT_LT(facts["file_bytes"]["after"].get<double>(), 0.5 * facts["file_bytes"]["before"].get<double>());
  EXPECT_LT(facts["memory_bytes"]["after"].get<double>(), 0.5 * facts["memory_bytes"]["before"].get<double>());
  EXPECT_LE(facts["peak_bytes"].get<double>(), facts["line_bytes"].get<double>());
  for (const char* verb : {"eval", "predict", "plan"}) {
    const Outcome outcome = run_program(fmt::format("{} {} --data {}", verb, in("small.plimsoll"), data_.folder()));
    EXPECT_EQ(outcome.exit_code, 0) << verb << ": " << outcome.errors;
  }
  EXPECT_THAT(run_program("inspect " + in("small.plimsoll")).output, HasSubstr("kernel i8[64,16]"));
  EXPECT_THAT(run_program("inspect --graph " + in("small.plimsoll")).output, HasSubstr("int8_dense("));
}

// Values that are observed take memory too: the line that a refusal names has room for them.
TEST_F(Quantize, NamesALineThatWorks) {
  const std::string data = "--data /usr/share/datasets/fashion-mnist";
  const Outcome trained = run_program(
      fmt::format("train fashion {} --steps 1 --memory 64MiB --progress none --save-model {}", data, in("fashion")));
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const std::string command =
      fmt::format("quantize {} {} --samples 128 -o {} --no-remedies --json", in("fashion"), data, in("small"));
  const Outcome refused = run_program(command + " --memory 8MiB");
  ASSERT_EQ(refused.exit_code, 3) << refused.errors;
  const auto line = nlohmann::json::parse(refused.output)["smallest_line_bytes"].get<int64_t>();
  const Outcome made = run_program(fmt::format("{} --memory {}", command, line));
  EXPECT_EQ(made.exit_code, 0) << made.errors;
}

TEST_F(Quantize, RefusesClearly) {
  ASSERT_EQ(quantize("net.plimsoll", "--all").exit_code, 0);
  const Outcome twice =
      run_program(fmt::format("quantize {} --data {} -o {}", in("small.plimsoll"), data_.folder(), in("x.plimsoll")));
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.errors, HasSubstr("quantised already"));
  const Outcome trained = run_program(fmt::format("train {} --data {}", in("small.plimsoll"), data_.folder()));
  EXPECT_NE(trained.exit_code, 0);
  EXPECT_THAT(trained.errors, HasSubstr("can't be trained"));
  EXPECT_EQ(quantize("net.plimsoll", "--calibration guess").exit_code, 2);
  EXPECT_EQ(quantize("net.plimsoll", "--memory 1MiB").exit_code, 3);
  const Outcome other = run_program(fmt::format("quantize lenet --weights {}/weights.safetensors --data {} -o {}",
                                                in("net.plimsoll"), data_.folder(), in("x.plimsoll")));
  EXPECT_EQ(other.exit_code, 4) << other.errors;
}

// quantize does not take what strip made, nor strip what quantize made: one error each, and nothing is written.
TEST_F(Quantize, StrippedModelsAreRefusedAndQuantisedOnesAreNotStripped) {
  const Outcome pruned = run_program(
      fmt::format("prune {} -b 8 --data {} --epochs 4 --to 0.8 --frequency 2 --progress none --save-model {}",
                  in("net.plimsoll"), data_.folder(), in("pruned")));
  ASSERT_EQ(pruned.exit_code, 0) << pruned.errors;
  ASSERT_EQ(run_program(fmt::format("strip {} -o {}", in("pruned"), in("stripped"))).exit_code, 0);
  ASSERT_EQ(quantize("pruned", "--all").exit_code, 0);
  const auto expect_refused = [&](const std::string& command, const std::string& why) {
    const Outcome refused = run_program(command);
    EXPECT_EQ(refused.exit_code, 2) << command;
    EXPECT_THAT(refused.errors, HasSubstr(why));
    EXPECT_EQ(std::count(refused.errors.begin(), refused.errors.end(), '\n'), 1) << refused.errors;
    EXPECT_FALSE(std::filesystem::exists(in("refused"))) << command;
  };
  expect_refused(fmt::format("strip {} -o {}", in("small.plimsoll"), in("refused")), "is quantised");
  expect_refused(fmt::format("quantize {} --data {} -o {}", in("stripped"), data_.folder(), in("refused")),
                 "is stripped");
}

}  // namespace
}  // namespace plimsoll::testing
