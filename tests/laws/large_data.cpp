// Training on data much larger than the line: 1,000,000 rows of 100 doubles, in a control group of 48 MiB.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/types.h>
#include "input/files.h"
#include "support/cgroup.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

constexpr int64_t kRows = 1'000'000;

// A sparse file: its zeros take no space on disk, but as much memory as other numbers when they are read.
void write_zeros(const testing::TemporaryDirectory& folder, const std::string& name, const std::string& header,
                 Bytes bytes) {
  const std::string path = folder.write(name, header);
  std::filesystem::resize_file(path, header.size() + static_cast<size_t>(bytes));
}

TEST(LargeData, TrainsInAFractionOfItsSize) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const testing::TemporaryDirectory folder;
  write_zeros(folder, "x_train.npy", testing::npy("'<f8'", "(1000000, 100)", ""), kRows * 100 * 8);
  write_zeros(folder, "y_train.npy", testing::npy("'<i8'", "(1000000,)", ""), kRows * 8);
  const std::string command = fmt::format(
      "train mlp --image-size 10 --channels 1 --width 64 --steps 100 --threads 1 --progress none --memory 48MiB --data "
      "{}",
      folder.path());
  const testing::Outcome outcome = testing::run_program(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("1,000,000 elements of x f32[100], y i64[]"), std::string::npos) << outcome.output;
  const testing::LimitedOutcome limited =
      testing::run_limited({"/bin/sh", "-c", fmt::format("exec {} {} >/dev/null", PLIMSOLL_BINARY, command)}, 48 * MiB);
  if (!limited.run) GTEST_SKIP() << limited.reason;
  EXPECT_FALSE(limited.run->oom_killed);
  EXPECT_EQ(limited.run->exit_code, 0);
}

}  // namespace
}  // namespace plimsoll
