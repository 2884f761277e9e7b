// A model of 8 bits predicts in a process of 14 MiB, code of libraries included, and gives the answers of a larger one.
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/types.h>
#include "input/files.h"
#include "support/cgroup.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using testing::Outcome;
using testing::run_program;

constexpr const char* kData = "--data /usr/share/datasets/fashion-mnist";

class SmallLine : public ::testing::Test {
 protected:
  void SetUp() override {
    PLIMSOLL_SKIP_UNDER_SANITIZER();
    make(fmt::format("train fashion {} --memory 48MiB --batch 32 --steps 40 --progress none --save-model {}", kData,
                     path("model")));
    make(fmt::format("quantize {} {} -o {} --memory 64MiB --samples 64", path("model"), kData, path("small")));
  }
  void make(const std::string& command) {
    const Outcome done = run_program(command);
    ASSERT_EQ(done.exit_code, 0) << command << "\n" << done.errors;
  }
  std::string path(const char* name) const { return files.path() + "/" + name; }
  std::string predict(const char* line, const char* answers) const {
    return fmt::format("predict {} {} --memory {} --json --output {}", path("small"), kData, line, path(answers));
  }
  std::string text_of(const char* name) const {
    std::ifstream file(path(name), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  const testing::TemporaryDirectory files;
};

TEST_F(SmallLine, PredictsInFourteenMebibytesWithTheSameAnswers) {
  const Outcome small = run_program(predict("14MiB", "small.npy"));
  ASSERT_EQ(small.exit_code, 0) << small.errors;
  EXPECT_LE(small.event("predict")["measured_peak_bytes"].get<Bytes>(), 14 * MiB);
  ASSERT_EQ(run_program(predict("256MiB", "large.npy")).exit_code, 0);
  EXPECT_GT(text_of("large.npy").size(), 10'000U);
  EXPECT_EQ(text_of("small.npy"), text_of("large.npy"));
}

// The line that a refusal names works, is as small as is promised, and is not far above one that does not.
TEST_F(SmallLine, ARefusalNamesALineThatWorksAndIsNotTooHigh) {
  const Outcome refused = run_program(predict("8MiB", "refused.npy") + " --no-remedies");
  ASSERT_EQ(refused.exit_code, 3) << refused.errors;
  const auto refusal = nlohmann::json::parse(refused.output, nullptr, false);
  ASSERT_FALSE(refusal.is_discarded()) << refused.output;
  const auto named = refusal["smallest_line_bytes"].get<Bytes>();
  EXPECT_LE(named, 14 * MiB);
  const Outcome there = run_program(predict(std::to_string(named).c_str(), "named.npy"));
  EXPECT_EQ(there.exit_code, 0) << there.errors;
  EXPECT_EQ(run_program(predict(std::to_string(named - MiB).c_str(), "below.npy") + " --no-remedies").exit_code, 3);
}

TEST_F(SmallLine, PredictsInAControlGroupOfFourteenMebibytes) {
  const testing::LimitedOutcome result = testing::run_limited(
      {"/bin/sh", "-c", fmt::format("exec {} {} >/dev/null", PLIMSOLL_BINARY, predict("14MiB", "answers.npy"))},
      14 * MiB);
  if (!result.run) GTEST_SKIP() << "no control group could be made (" << result.reason << ")";
  EXPECT_FALSE(result.run->oom_killed);
  EXPECT_EQ(result.run->exit_code, 0);
}

}  // namespace
}  // namespace plimsoll
