// Adapters keep the line: gpt2-small is fine-tuned under 300 MiB, which its weights in f32 alone would exceed; and
// verbs that train, load and merge adapters keep the smallest line that they name.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/types.h>
#include "support/cgroup.h"
#include "support/disk_folder.h"
#include "support/program.h"
#include "support/sanitizer.h"
#include "support/words_data.h"

namespace plimsoll {
namespace {

using testing::Outcome;
using testing::run_program;

void expect_kept(const std::string& command, Bytes line) {
  const std::string at_line = fmt::format("{} --memory {}", command, line);
  const auto result =
      testing::run_limited({"/bin/sh", "-c", fmt::format("exec {} {} >/dev/null", PLIMSOLL_BINARY, at_line)}, line);
  // The program itself ends with an error when VmHWM is above the line.
  if (result.run) {
    EXPECT_FALSE(result.run->oom_killed) << at_line;
    EXPECT_EQ(result.run->exit_code, 0) << at_line;
  } else {
    EXPECT_EQ(run_program(at_line).exit_code, 0) << at_line;
  }
}

TEST(AdaptLine, Gpt2SmallIsTunedUnder300MiB) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  expect_kept("profile gpt2-small -b 4 --sequence 256 --rank 8 --frozen-type int8 --steps 1", 300 * MiB);
}

TEST(AdaptLine, IsKeptByEveryVerb) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const testing::DiskFolder disk;
  const std::string& folder = disk;
  testing::write_words_data(folder, 16, 5000, 8, 5);
  const std::string model = "gpt2-small --layers 4 --width 256 --classes 5000 --sequence 16";
  const std::string data = fmt::format("{} --data {} -b 4", model, folder);
  ASSERT_EQ(run_program(fmt::format("train {} --progress none --save {}/base", data, folder)).exit_code, 0);
  const auto smallest = [](const std::string& command) {
    const Outcome refused = run_program(command + " --json --no-remedies --memory 1MiB");
    EXPECT_EQ(refused.exit_code, 3) << refused.errors;
    return nlohmann::json::parse(refused.output, nullptr, false).value("smallest_line_bytes", Bytes{0});
  };
  for (const char* type : {"f32", "bf16", "int8"}) {
    const std::string adapt =
        fmt::format("adapt {} --progress none --rank 4 --frozen-type {} --weights {}/base --output {}/{}", data, type,
                    folder, folder, type);
    expect_kept(adapt, smallest(adapt));
  }
  const std::string eval = fmt::format("eval {} --weights {}/base --adapter {}/int8", data, folder, folder);
  expect_kept(eval, smallest(eval));
  // The weights take 17 MiB; merging holds an adapter and a row of them.
  expect_kept(
      fmt::format("merge {} --weights {}/base --adapter {}/int8 --output {}/merged", model, folder, folder, folder),
      24 * MiB);
}

}  // namespace
}  // namespace plimsoll
