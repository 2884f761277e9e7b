// With all log files of a run the process stays below its line, and the line that a refusal names works.
#include <filesystem>

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

constexpr int64_t kSamples = 256;

class LogFilesLine : public ::testing::Test {
 protected:
  void SetUp() override {
    PLIMSOLL_SKIP_UNDER_SANITIZER();
    const std::string x(kSamples * 784, '\x11'), y(kSamples, '\x03');
    for (const char* half : {"train", "test"}) {
      folder_.write(fmt::format("x_{}.npy", half), testing::npy("'|u1'", fmt::format("({}, 28, 28)", kSamples), x));
      folder_.write(fmt::format("y_{}.npy", half), testing::npy("'|u1'", fmt::format("({},)", kSamples), y));
    }
  }
  std::string train(Bytes line, const std::string& run) const {
    return fmt::format(
        "train lenet -b 32 --data {} --json --epochs 20 --threads 1 --no-remedies --memory {} --histograms 1 --run "
        "{}/{}",
        folder_.path(), line, folder_.path(), run);
  }
  const testing::TemporaryDirectory folder_;
};

TEST_F(LogFilesLine, IsKeptAtTheSmallestLineThatIsNamed) {
  const testing::Outcome refused = testing::run_program(train(MiB, "refused"));
  ASSERT_EQ(refused.exit_code, 3) << refused.errors;
  const auto line = nlohmann::json::parse(refused.output).value("smallest_line_bytes", Bytes{0});
  ASSERT_GT(line, 0);
  const testing::Outcome done = testing::run_program(train(line, "measured"));
  ASSERT_EQ(done.exit_code, 0) << done.errors;
  EXPECT_LE(done.event("end")["measured_peak_bytes"].get<Bytes>(), line);  // also where no control group can be made
  for (const char* name : {"config.json", "plan.txt", "plan.json", "metrics.csv", "metrics.jsonl", "events"})
    EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/measured/" + name)) << name;
  const testing::LimitedOutcome limited = testing::run_limited(
      {"/bin/sh", "-c", fmt::format("exec {} {} >/dev/null", PLIMSOLL_BINARY, train(line, "limited"))}, line);
  if (!limited.run) GTEST_SKIP() << "no control group could be made (" << limited.reason << ")";
  EXPECT_FALSE(limited.run->oom_killed);
  EXPECT_EQ(limited.run->exit_code, 0);
}

}  // namespace
}  // namespace plimsoll
