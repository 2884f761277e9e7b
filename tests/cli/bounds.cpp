// What can't be planned, or makes no sense, is refused early: before its graph takes the line, in one sentence.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/types.h>
#include "support/cgroup.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

TEST(Bounds, MoreThreadsThanThereCanBeAreAMistake) {
  for (const char* command : {"plan mlp --threads 1000000", "train mlp --data nothing --data-threads 1025",
                              "plan mlp --threads 2.5", "plan mlp --replicas 2 --threads 99999999999"}) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_THAT(outcome.errors, HasSubstr("is no number of threads: give 1 to 1024")) << command;
  }
  EXPECT_EQ(run_program("plan mlp --threads 1024").exit_code, 0);
}

TEST(Bounds, MoreOperatorsThanCanBePlannedAreAMistake) {
  for (const char* model : {"gpt2-small --layers 100000", "dense-chain --layers 100000 --width 8"}) {
    const Outcome outcome = run_program(fmt::format("plan {} --memory 100GiB", model));
    EXPECT_EQ(outcome.exit_code, 2) << model;
    EXPECT_THAT(outcome.errors, HasSubstr("a step of more than 150000 operators can't be planned")) << model;
  }
}

// In a control group in which the whole graph has no room.
TEST(Bounds, AGraphThatCannotBePlannedWithinTheLineIsRefusedWhileItGrows) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const std::string command = "plan dense-chain --layers 18000 --width 8 -b 4 --memory 24MiB";
  const Outcome outcome = run_program(command);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("to plan more than 80000 operators takes more than"));
  const auto limited =
      run_limited({"/bin/sh", "-c", fmt::format("exec {} {} >/dev/null 2>&1", PLIMSOLL_BINARY, command)}, 96 * MiB);
  if (!limited.run) GTEST_SKIP() << limited.reason;
  EXPECT_FALSE(limited.run->oom_killed);
  EXPECT_EQ(limited.run->exit_code, 3);
}

TEST(Bounds, ADeepModelIsRefusedWithALineThatWorksAndSaysWhatWasNotTried) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const std::string command = "plan gpt2-small --layers 150 --width 64 --sequence 16 --classes 100 -b 8";
  const Outcome refused = run_program(command + " --json --memory 20MiB");
  ASSERT_EQ(refused.exit_code, 3) << refused.errors;
  const auto json = nlohmann::json::parse(refused.output, nullptr, false);
  EXPECT_FALSE(json["not_tried"].empty());
  EXPECT_THAT(refused.errors, HasSubstr("not tried, because planning takes long: "));
  const Outcome planned =
      run_program(fmt::format("{} --memory {}", command, json["smallest_line_bytes"].get<int64_t>()));
  EXPECT_EQ(planned.exit_code, 0) << planned.errors;
}

TEST(Bounds, ASmallModelTriesAllRemedies) {
  const Outcome refused = run_program("plan mlp --json --memory 12MiB");
  ASSERT_EQ(refused.exit_code, 3) << refused.errors;
  EXPECT_TRUE(nlohmann::json::parse(refused.output)["not_tried"].empty());
}

TEST(Bounds, ALowLimitOfTheStackIsRaisedOrNamed) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  for (const int kib : {64, 100, 128, 512}) {
    const Outcome outcome = run_program("plan mlp --memory 1GiB", fmt::format("ulimit -s {};", kib));
    const bool works = outcome.exit_code == 0;
    EXPECT_TRUE(works || outcome.errors.find("raise the limit with ulimit -s 8192") != std::string::npos)
        << kib << ": " << outcome.exit_code << " " << outcome.errors;
  }
}

}  // namespace
}  // namespace plimsoll::testing
