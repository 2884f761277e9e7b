// The process never passes its line, proven by the operating system; a line that is too small is refused early, and the
// line that the refusal names works.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/types.h>
#include "input/files.h"
#include "support/cgroup.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;

constexpr const char* kData = "--data /usr/share/datasets/fashion-mnist";

std::string train(const std::string& model, Bytes line, int steps) {
  return fmt::format("train {} {} --json --memory {} --steps {}", model, kData, line, steps);
}

// The smallest line that works, as the refusal of a far too small line names it.
Bytes smallest_line(const std::string& model) {
  const Outcome refused = run_program(fmt::format("train {} {} --json --memory 1MiB", model, kData));
  EXPECT_EQ(refused.exit_code, 3) << refused.errors;
  const auto plan = nlohmann::json::parse(refused.output, nullptr, false);
  return plan.value("smallest_line_bytes", Bytes{0});
}

class LineTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LineTest, SmallestLineWorksAndIsKept) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const Bytes smallest = smallest_line(GetParam());
  ASSERT_GT(smallest, 0);
  for (const Bytes line : {smallest, smallest + 3 * MiB, smallest + 32 * MiB}) {
    const Outcome done = run_program(train(GetParam(), line, 30));
    ASSERT_EQ(done.exit_code, 0) << format_bytes(line) << "\n" << done.errors;
    const auto end = done.event("end");
    EXPECT_LE(end["measured_peak_bytes"].get<Bytes>(), line);
    EXPECT_LE(end["measured_peak_bytes"].get<Bytes>(), end["planned_peak_bytes"].get<Bytes>());
    EXPECT_LE(end["planned_peak_bytes"].get<Bytes>(), line);
  }
  // 3 MiB below is refused: the named line is really the smallest.
  EXPECT_EQ(run_program(train(GetParam(), smallest - 3 * MiB, 1)).exit_code, 3);
}

TEST_P(LineTest, TrainsInAControlGroupOfExactlyTheLine) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const Bytes line = smallest_line(GetParam());
  ASSERT_GT(line, 0);
  const testing::LimitedOutcome result = testing::run_limited(
      {"/bin/sh", "-c", fmt::format("exec {} {} >/dev/null", PLIMSOLL_BINARY, train(GetParam(), line, 30))}, line);
  if (!result.run) GTEST_SKIP() << "no control group could be made (" << result.reason << ")";
  EXPECT_FALSE(result.run->oom_killed);
  EXPECT_EQ(result.run->exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, LineTest, ::testing::Values("mlp", "lenet", "fashion"));

// Data is found and named before planning; its samples, which can't be read here, are not.
TEST(Line, RefusalComesBeforeASampleIsRead) {
  const testing::TemporaryDirectory folder;
  std::filesystem::create_directory(folder.path() + "/cat");
  for (int i = 0; i < 8; ++i) folder.write(fmt::format("cat/{}.jpg", i), "no image");
  const std::string command = fmt::format("train lenet --batch 8 --data {} --memory ", folder.path());
  const Outcome refused = run_program(command + "8MiB");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.errors, HasSubstr("does not fit: needs"));
  EXPECT_THAT(refused.errors, HasSubstr("short; tightest at"));
  EXPECT_THAT(refused.errors, HasSubstr("smallest line that works"));
  const Outcome accepted = run_program(command + "512MiB");
  EXPECT_EQ(accepted.exit_code, 4);
  EXPECT_THAT(accepted.errors, HasSubstr(".jpg: at byte 0: this is neither JPEG nor PNG"));
}

TEST(Line, FixedCostOfTheProcessIsSmall) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const Outcome doctor = run_program("doctor --json");
  ASSERT_EQ(doctor.exit_code, 0);
  EXPECT_LE(nlohmann::json::parse(doctor.output)["fixed_cost_bytes"].get<Bytes>(), 20 * MiB);
}

}  // namespace
}  // namespace plimsoll
