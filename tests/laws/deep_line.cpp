// Deep models of small layers, whose graph and plan are larger than their tensors, keep the line: each verb runs in a
// control group of exactly the smallest line that the same command names.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/types.h>
#include "support/cgroup.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using testing::Outcome;
using testing::run_program;

struct Deep {
  const char* name;
  const char* flags;
  bool is_text;  // inputs and labels are numbers of words, 16 of them
};

void PrintTo(const Deep& deep, std::ostream* out) { *out << deep.name; }

void write_npy(const std::string& path, const std::string& type, int64_t rows, int64_t columns) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}", type, rows, columns);
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  const auto length = static_cast<uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8).write(reinterpret_cast<const char*>(&length), 2) << header;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const auto whole = static_cast<int32_t>(i * 7 % 100);
    const float real = static_cast<float>(whole) / 100;
    file.write(type == "<f4" ? reinterpret_cast<const char*>(&real) : reinterpret_cast<const char*>(&whole), 4);
  }
}

class DeepLine : public ::testing::TestWithParam<Deep> {
 protected:
  void SetUp() override {
    folder_ = fmt::format("{}deep-line-{}", ::testing::TempDir(), ::getpid());
    std::filesystem::create_directory(folder_);
    const bool is_text = GetParam().is_text;
    // No multiple of the batch: the last batch of an evaluation is smaller.
    for (const auto& [half, rows] : {std::pair{"train", 8}, std::pair{"test", 5}})
      for (const char* what : {"x", "y"})
        write_npy(fmt::format("{}/{}_{}.npy", folder_, what, half), is_text ? "<i4" : "<f4", rows, is_text ? 16 : 8);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // In a control group of the line that the command names when it is refused.
  void expect_kept(const std::string& command) const {
    SCOPED_TRACE(command);
    const Outcome refused = run_program(command + " --json --no-remedies --memory 1MiB");
    ASSERT_EQ(refused.exit_code, 3) << refused.errors;
    const auto line = nlohmann::json::parse(refused.output).value("smallest_line_bytes", Bytes{0});
    ASSERT_GT(line, 0);
    const std::string at_line = fmt::format("{} --memory {}", command, line);
    for (int i = 0; i < 3; ++i) {
      const auto result =
          testing::run_limited({"/bin/sh", "-c", fmt::format("exec {} {} >/dev/null", PLIMSOLL_BINARY, at_line)}, line);
      // The program itself ends with an error when VmHWM is above the line.
      if (result.run) {
        EXPECT_FALSE(result.run->oom_killed);
        EXPECT_EQ(result.run->exit_code, 0);
      } else {
        EXPECT_EQ(run_program(at_line).exit_code, 0);
      }
    }
    // Named within 1 % or 1 MiB of what is refused.
    const Bytes below = line - std::max(MiB, line / 100);
    EXPECT_EQ(run_program(fmt::format("{} --no-remedies --memory {}", command, below)).exit_code, 3);
  }

  std::string folder_;
};

TEST_P(DeepLine, IsKeptByEveryVerb) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const std::string model = GetParam().flags;
  const std::string train = fmt::format("train {} --data {} --progress none", model, folder_);
  const std::string weights = folder_ + "/weights";
  expect_kept(train + " --save " + weights);
  expect_kept(train + " --weights " + weights);
  expect_kept(fmt::format("eval {} --data {} --weights {}", model, folder_, weights));
  expect_kept(fmt::format("profile {} --steps 2", model));
}

INSTANTIATE_TEST_SUITE_P(
    Models, DeepLine,
    ::testing::Values(Deep{"dense_2000", "dense-chain --layers 2000 --width 8 -b 4", false},
                      Deep{"dense_5000", "dense-chain --layers 5000 --width 8 -b 4", false},
                      Deep{"gpt2_200", "gpt2-small --layers 200 --width 64 --sequence 16 --classes 100 -b 1", true},
                      Deep{"bert_100", "bert-base --layers 100 --width 64 --sequence 16 --classes 100 -b 1", true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace plimsoll
