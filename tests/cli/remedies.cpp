// A refusal names remedies: the command succeeds when the flags of any one of them are appended.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

// Tries every remedy that the refusal of this command names; returns the refusal.
nlohmann::json refuse_and_try(const std::string& command) {
  const Outcome refused = run_program(command + " --json");
  EXPECT_EQ(refused.exit_code, 3) << command << refused.errors;
  const auto json = nlohmann::json::parse(refused.output, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << refused.output;
  for (const auto& remedy : json.value("remedies", nlohmann::json::array())) {
    const std::string flags = remedy["flags"];
    EXPECT_THAT(refused.errors, HasSubstr("  " + flags));
    const Outcome outcome = run_program(fmt::format("{} --json {}", command, flags));
    EXPECT_EQ(outcome.exit_code, 0) << command << " " << flags << "\n" << outcome.errors;
  }
  return json;
}

bool names(const nlohmann::json& refusal, const std::string& flag) {
  for (const auto& remedy : refusal["remedies"])
    if (remedy["flags"].get<std::string>().find(flag) != std::string::npos) return true;
  return false;
}

void expect_ranked(const nlohmann::json& refusal) {
  const auto& remedies = refusal["remedies"];
  for (size_t i = 0; i < remedies.size(); ++i) {
    EXPECT_GE(remedies[i]["slowdown"], 1);
    if (i == 0) continue;
    const bool before = remedies[i - 1]["changes_results"];
    const bool now = remedies[i]["changes_results"];
    EXPECT_LE(before, now) << "what changes results comes last";
    EXPECT_LE(remedies[i - 1]["lossy"], remedies[i]["lossy"]) << "what loses digits comes after all else";
    if (before == now && remedies[i - 1]["lossy"] == remedies[i]["lossy"]) {
      EXPECT_LE(remedies[i - 1]["slowdown"], remedies[i]["slowdown"]);
    }
  }
}

TEST(Remedies, OfALineBelowTheVariables) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const auto refusal = refuse_and_try("plan mlp --width 1024 --memory 34MiB");
  expect_ranked(refusal);
  EXPECT_TRUE(names(refusal, "--memory"));
  EXPECT_TRUE(names(refusal, "--scratch"));
  EXPECT_TRUE(names(refusal, "--optimizer sgd"));
}

TEST(Remedies, HalfStorageIsTheLastAndSaysThatItIsLossy) {
  // A line between the needs with the state in 32 and in 16 bits.
  const auto needs = [](const std::string& flags) {
    const Outcome refused = run_program("plan mlp --width 2048 --json --memory 1MiB " + flags);
    return nlohmann::json::parse(refused.output, nullptr, false)["need_bytes"].get<int64_t>();
  };
  const int64_t line = (needs("") + needs("--half-storage state")) / 2;
  const auto refusal = refuse_and_try(fmt::format("plan mlp --width 2048 --memory {}", line));
  expect_ranked(refusal);
  ASSERT_FALSE(refusal["remedies"].empty());
  const auto last = refusal["remedies"].back();
  EXPECT_EQ(last["flags"], "--state-bits 16");
  EXPECT_EQ(last["lossy"], true);
  EXPECT_THAT(last["what"].get<std::string>(), HasSubstr("lossy"));
}

TEST(Remedies, FrozenWeightsInFewerBits) {
  const std::string command = "plan dense-chain --layers 30 --width 512 --train-only '*/dense_29/*'";
  const auto needs = [&](const std::string& flags) {
    const Outcome refused = run_program(fmt::format("{} --json --memory 1MiB {}", command, flags));
    return nlohmann::json::parse(refused.output, nullptr, false)["need_bytes"].get<int64_t>();
  };
  const int64_t line = (needs("") + needs("--frozen-type bf16")) / 2;
  const auto refusal = refuse_and_try(fmt::format("{} --memory {}", command, line));
  expect_ranked(refusal);
  EXPECT_TRUE(names(refusal, "--frozen-type bf16"));
}

TEST(Remedies, OfABatchThatMixes) {
  const auto refusal = refuse_and_try("plan resnet18 --image-size 64 --batch 64 --memory 220MiB --without recompute");
  expect_ranked(refusal);
  EXPECT_TRUE(names(refusal, "--memory"));
  EXPECT_TRUE(names(refusal, "--without none"));
  EXPECT_TRUE(names(refusal, "--batch"));
  EXPECT_TRUE(names(refusal, "--auto-batch"));
}

TEST(Remedies, OfADiskLimitThatIsTooLow) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const auto refusal = refuse_and_try("plan mlp --memory 26MiB --scratch . --disk-limit 1MiB");
  expect_ranked(refusal);
  EXPECT_TRUE(names(refusal, "--disk-limit"));
}

TEST(Remedies, AreNoneWithoutALineThatCanBeMet) {
  const auto refusal = refuse_and_try("plan lenet --memory 2MiB");
  ASSERT_EQ(refusal["remedies"].size(), 1U);
  EXPECT_THAT(refusal["remedies"][0]["flags"].get<std::string>(), HasSubstr("--memory"));
}

TEST(AutoBatch, IsTheLargestThatFitsWithoutParts) {
  const std::string command = "plan resnet18 --image-size 64 --memory 270MiB --json";
  const Outcome outcome = run_program(command + " --auto-batch");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto plan = nlohmann::json::parse(outcome.output);
  const int64_t batch = plan["batch"];
  EXPECT_GT(batch, 16);
  EXPECT_THAT(plan["batch_reason"].get<std::string>(), HasSubstr(fmt::format("batch {} is the largest", batch)));
  EXPECT_EQ(run_program(fmt::format("{} --batch {}", command, batch)).exit_code, 0);
  EXPECT_EQ(run_program(fmt::format("{} --batch {} --without micro-batch", command, batch + batch / 8)).exit_code, 3);
}

TEST(AutoBatch, TakesTheBatchAsTheMost) {
  const Outcome outcome = run_program("plan mlp --memory 1GiB --json --auto-batch --batch 96");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(nlohmann::json::parse(outcome.output)["batch"], 96);
  EXPECT_TRUE(names(refuse_and_try("plan mlp --memory 2MiB --auto-batch"), "--memory"));
}

}  // namespace
}  // namespace plimsoll::testing
