// --config: options from a file, and flags that count more.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "input/files.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  Outcome run(const std::string& verb, const std::string& config, const std::string& flags = "") {
    const std::string path = folder_.write("run.json", config);
    return run_program(fmt::format("{} --config {} {}", verb, path, flags));
  }
  nlohmann::json plan(const std::string& config, const std::string& flags = "") {
    const Outcome outcome = run("plan", config, flags + " --json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output, nullptr, false);
  }
  TemporaryDirectory folder_;
};

constexpr const char* kConfig = R"({"model": "mlp", "batch": 24, "memory": "512MiB", "without": ["recompute", "masks"],
  "lr": 1, "no-remedies": true, "auto-batch": false})";

TEST_F(ConfigTest, HoldsTheOptionsOfAVerb) {
  const auto found = plan(kConfig);
  EXPECT_EQ(found["model"], "mlp");
  EXPECT_EQ(found["batch"], 24);
  EXPECT_EQ(found["line_bytes"], 512 << 20);
}

TEST_F(ConfigTest, FlagsCountMore) {
  const auto found = plan(kConfig, "lenet -b 48 --memory=768MiB");
  EXPECT_EQ(found["model"], "lenet");
  EXPECT_EQ(found["batch"], 48);
  EXPECT_EQ(found["line_bytes"], 768 << 20);
  // A list of the file is replaced as well, not added to.
  EXPECT_EQ(run("plan", R"({"model": "mlp", "without": ["gravity"]})", "--without recompute").exit_code, 0);
  EXPECT_EQ(run("plan", R"({"model": "mlp", "without": "gravity"})").exit_code, 2);
}

TEST_F(ConfigTest, KeysOfTrainingArePassedOverByOtherVerbs) {
  EXPECT_EQ(plan(R"({"model": "mlp", "epochs": 3, "save": "x"})")["model"], "mlp");
  EXPECT_EQ(plan(R"({"model": "mlp", "scratch": "", "map": []})")["model"], "mlp") << "as if they were not there";
}

TEST_F(ConfigTest, MistakesNameTheFileAndTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"epoch": 3})", "run.json: unknown key 'epoch'; did you mean 'epochs'?"},
      {R"({"image_size": 3})", "run.json: unknown key 'image_size'; did you mean 'image-size'?"},
      {R"({"--batch": 3})", "run.json: unknown key '--batch'; did you mean 'batch'?"},
      {R"({"xylophone": 3})", "unknown key 'xylophone'; keys are the flags of plimsoll train, without dashes"},
      {R"({"config": "run.json"})", "unknown key 'config'"},
      {R"({"help": true})", "unknown key 'help'"},
      {R"({"batch": "32"})", "run.json: 'batch' must be a whole number, not \"32\""},
      {R"({"batch": 1.5})", "'batch' must be a whole number, not 1.5"},
      {R"({"lr": "x"})", "'lr' must be a number, not \"x\""},
      {R"({"memory": 64})", "'memory' must be a string, not 64"},
      {R"({"auto-batch": 1})", "'auto-batch' must be true or false, not 1"},
      {R"({"without": 3})", "'without' must be a list of strings, not 3"},
      {R"({"model": ["mlp"]})", "'model' must be a string, not a list"},
      {R"({"epochs": "three"})", "'epochs' must be a whole number, not \"three\""},
      {R"({"model": "mlp", "batch": -3})", "run.json': --batch"},
      {R"({"batch": 3})", "run.json': model is required"},
      {R"({"batch": 3)", "run.json: parse error at line 1"},
  };
  for (const auto& [config, message] : cases) {
    const Outcome outcome = run("plan", config);
    EXPECT_EQ(outcome.exit_code, 2) << config;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << config;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  }
  EXPECT_THAT(run_program("plan mlp --config /no/such.json").errors, HasSubstr("/no/such.json: No such file"));
  EXPECT_EQ(run_program("plan mlp --config /no/such.json").exit_code, 2);
  EXPECT_EQ(run_program("plan mlp --config").exit_code, 2);
  EXPECT_THAT(run_program("doctor --config x").errors, HasSubstr("unknown flag --config"));
  EXPECT_EQ(run("train", "{", "--help").exit_code, 0) << "help reads no file";
}

}  // namespace
}  // namespace plimsoll::testing
