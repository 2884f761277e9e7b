// plan: the scratch folder, the curve, and plans in files.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/disk_folder.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// A line with scratch that is below what memory alone needs, so that something is streamed.
nlohmann::json smallest_with_scratch(const std::string& folder) {
  const Outcome refused = run_program(fmt::format("plan mlp --width 2048 --json --memory 2MiB --scratch {}", folder));
  EXPECT_EQ(refused.exit_code, 3) << refused.errors;
  return nlohmann::json::parse(refused.output, nullptr, false);
}

TEST(Plan, StreamsOnlyWithAScratchFolder) {
  const DiskFolder folder;
  const int64_t line = smallest_with_scratch(folder)["smallest_line_bytes"].get<int64_t>() + (1 << 20);
  EXPECT_EQ(run_program(fmt::format("plan mlp --width 2048 --json --memory {}", line)).exit_code, 3);
  const std::string command =
      fmt::format("mlp --width 2048 --memory {} --scratch {}", line, static_cast<const std::string&>(folder));
  const Outcome planned = run_program("plan " + command);
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_THAT(planned.output, HasSubstr("streams "));
  EXPECT_THAT(planned.output, HasSubstr("through " + static_cast<const std::string&>(folder)));
  const auto json = nlohmann::json::parse(run_program("plan --json " + command).output, nullptr, false);
  EXPECT_GT(json["streamed_bytes"], 0);
  EXPECT_GE(json["scratch_file_bytes"], json["streamed_bytes"]);
  // The other verbs take the same flags and run the same plan.
  const Outcome profiled = run_program("profile --steps 1 " + command);
  EXPECT_EQ(profiled.exit_code, 0) << profiled.errors;
  EXPECT_THAT(profiled.output, HasSubstr("from disk"));
  const Outcome trained = run_program("train --data /usr/share/datasets/fashion-mnist --steps 5 --json " + command);
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
  const auto end = trained.event("end");
  EXPECT_LE(end["measured_peak_bytes"], end["planned_peak_bytes"]);
  EXPECT_TRUE(folder.is_empty());
}

TEST(Plan, AWrongScratchFolderIsOneClearError) {
  const std::pair<const char*, const char*> cases[] = {{"--scratch /no/such", "'/no/such'"},
                                                       {"--scratch /dev/shm", "tmpfs"},
                                                       {"--disk-limit 1GiB", "--scratch DIR"},
                                                       {"--scratch . --disk-limit 9KiB", "too small"}};
  for (const auto& [flags, message] : cases) {
    const Outcome outcome = run_program(fmt::format("plan mlp {}", flags));
    EXPECT_EQ(outcome.exit_code, 2) << flags << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << flags;
  }
  const Outcome full = run_program("plan mlp --scratch . --disk-limit 900TiB");
  EXPECT_EQ(full.exit_code, 5) << full.errors;
  EXPECT_THAT(full.errors, HasSubstr("free"));
  EXPECT_EQ(run_program("plan mlp --scratch /dev/shm --without spill").exit_code, 0);
}

TEST(Plan, SaysWhatItDoesAndWhy) {
  const Outcome outcome = run_program("plan fashion --memory 40MiB");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* words : {"in ", " micro-batches of ", "equal up to rounding (in micro-batches; within 1e-4",
                            "unconstrained", "smallest possible", "where ", "holds   weights"})
    EXPECT_THAT(outcome.output, HasSubstr(words));
}

// The whole batch is chosen where it costs at most a tenth more time than micro-batches, and what was not chosen is
// told.
TEST(Plan, KeepsAllBitsForATenthOfTheTime) {
  bool prefers_bits = false, prefers_time = false;
  for (const char* flags :
       {"--sequence 128 --memory 80MiB", "--sequence 128 --memory 60MiB", "--sequence 256 --memory 80MiB"}) {
    SCOPED_TRACE(flags);
    const std::string command =
        fmt::format("plan gpt2-small --layers 2 --width 128 -b 32 --classes 500 --threads 2 --json {}", flags);
    const auto plan_of = [](const std::string& words) {
      return nlohmann::json::parse(run_program(words).output, nullptr, false);
    };
    const auto chosen = plan_of(command), whole = plan_of(command + " --without micro-batch");
    ASSERT_TRUE(chosen.contains("other_plan")) << chosen;
    const double other_ns = chosen["other_plan"]["predicted_step_ns"], ns = chosen["predicted_step_ns"];
    EXPECT_LE(chosen["other_plan"]["peak_bytes"], chosen["line_bytes"]);
    if (chosen["micro_batches"].size() == 1) {
      prefers_bits = true;
      EXPECT_EQ(chosen["exactness"], "bit-identical");
      EXPECT_EQ(ns, whole["predicted_step_ns"]);
      EXPECT_GT(chosen["other_plan"]["micro_batches"], 1);
      EXPECT_LT(other_ns, ns);
      EXPECT_LE(ns, 1.1 * other_ns);
      EXPECT_THAT(run_program(command.substr(0, command.find(" --json")) + " " + flags).output,
                  HasSubstr("instead " + chosen["other_plan"]["micro_batches"].dump() + " micro-batches: -"));
    } else {
      prefers_time = true;
      EXPECT_EQ(chosen["other_plan"]["micro_batches"], 1);
      EXPECT_EQ(other_ns, whole["predicted_step_ns"]);
      EXPECT_GT(other_ns, 1.1 * ns);
    }
  }
  EXPECT_TRUE(prefers_bits);
  EXPECT_TRUE(prefers_time);
}

TEST(Plan, ACurveNeverTurnsBack) {
  const DiskFolder folder;
  for (const std::string& flags : {std::string("mlp"), std::string("fashion"), std::string("lenet --without spill"),
                                   "lenet --scratch " + static_cast<const std::string&>(folder),
                                   std::string("resnet18 --image-size 32 --batch 16")}) {
    const Outcome outcome = run_program("plan --curve --json " + flags);
    ASSERT_EQ(outcome.exit_code, 0) << flags << outcome.errors;
    const auto points = nlohmann::json::parse(outcome.output)["points"];
    ASSERT_FALSE(points.empty());
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_LE(points[i]["peak_bytes"], points[i]["line_bytes"]) << flags;
      if (i == 0) continue;
      EXPECT_GE(points[i]["line_bytes"], points[i - 1]["line_bytes"]) << flags;
      EXPECT_GE(points[i]["peak_bytes"], points[i - 1]["peak_bytes"]) << flags;
      EXPECT_LE(points[i]["predicted_step_ns"], points[i - 1]["predicted_step_ns"]) << flags;
    }
    EXPECT_EQ(points.back()["slowdown"], 1);
  }
}

TEST(Plan, ACurveUsesPartsOfTheBatch) {
  const auto curve = nlohmann::json::parse(run_program("plan fashion --curve --json").output, nullptr, false);
  EXPECT_GT(curve["points"].front()["micro_batches"], 1);
  EXPECT_EQ(curve["points"].back()["micro_batches"], 1);
  EXPECT_THAT(run_program("plan fashion --curve").output, HasSubstr("micro-batches"));
}

class Dumped : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome outcome = run_program(fmt::format("plan fashion --memory 40MiB --dump {}", path_));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    text_ = read_file(path_);
  }
  // The same file with one thing changed.
  Outcome inspect_changed(const std::string& from, const std::string& to) {
    std::string text = text_;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_file(path_, text.replace(at, from.size(), to));
    return run_program("inspect " + path_);
  }
  const std::string path_ = ::testing::TempDir() + "cli_dumped.plan";
  std::string text_;
};

TEST_F(Dumped, PlanIsReadAndHolds) {
  const Outcome outcome = run_program("inspect " + path_);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("check: holds"));
  EXPECT_THAT(outcome.output, HasSubstr(" micro-batches of "));
  EXPECT_THAT(outcome.output, HasSubstr("equal up to rounding"));
  const auto json = nlohmann::json::parse(run_program("inspect --json " + path_).output, nullptr, false);
  EXPECT_EQ(json["holds"], true);
  EXPECT_EQ(json["problem"], "fashion");
}

TEST_F(Dumped, PlanWithAFaultIsExitCodeOneAndSaysWhich) {
  const size_t arena = text_.find("\narena ") + 1;
  const Outcome small = inspect_changed(text_.substr(arena, text_.find('\n', arena) - arena), "arena 64");
  EXPECT_EQ(small.exit_code, 1) << small.errors;
  EXPECT_THAT(small.output, HasSubstr("past the arena"));
  const size_t step = text_.find("\naction ") + 1;
  const Outcome missing = inspect_changed(text_.substr(step, text_.find('\n', step) - step + 1), "");
  EXPECT_EQ(missing.exit_code, 1) << missing.errors;
  EXPECT_THAT(missing.output, ::testing::Not(HasSubstr("check: holds")));
  const size_t bytes = text_.find("\nbytes ") + 1;
  EXPECT_EQ(inspect_changed(text_.substr(bytes, text_.find('\n', bytes) - bytes), "bytes 4096").exit_code, 1);
}

TEST_F(Dumped, DamagedFileIsExitCodeFour) {
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\nbuffer ", "\nbaffle "},
                                 {"\naction ", "\naction fly_"},
                                 {"limits\n", "limit\n"},
                                 {"plan 1\n", "plan 9\n"},
                                 {"\nbatch 128", "\nbatch many"}}) {
    const Outcome outcome = inspect_changed(from, to);
    EXPECT_EQ(outcome.exit_code, 4) << from << outcome.errors << outcome.output;
    EXPECT_THAT(outcome.errors, HasSubstr(path_));
  }
  for (const size_t size : {text_.size() - 1, text_.size() / 2, size_t{100}, size_t{10}, size_t{0}}) {
    write_file(path_, text_.substr(0, size));
    EXPECT_EQ(run_program("inspect " + path_).exit_code, 4) << size;
  }
}

TEST_F(Dumped, ImpossibleLivesAndSizesAreExitCodeFour) {
  const size_t life = text_.find("\nlife ") + 1;
  const std::string line = text_.substr(life, text_.find('\n', life) - life);
  const std::string start = line.substr(0, line.find(' ', 5) + 1);
  for (const char* rest :
       {"0 4294967296 offset 0 bytes 64", "4294967296 4294967296 offset 0 bytes 64", "5 3 offset 0 bytes 64",
        "-1 3 offset 0 bytes 64", "0 0 offset -64 bytes 64", "0 0 offset 0 bytes -64", "0 0 offset 7 bytes 64",
        "0 0 offset 0 bytes 7", "0 0 offset 9223372036854775807 bytes 64", "0 0 offset 0 bytes 99999999999999999999"}) {
    const Outcome outcome = inspect_changed(line, start + rest);
    EXPECT_EQ(outcome.exit_code, 4) << rest << outcome.errors << outcome.output;
    EXPECT_THAT(outcome.errors, HasSubstr(path_)) << rest;
    EXPECT_EQ(outcome.output, "") << rest;
  }
  const Outcome late = inspect_changed(line, start + "0 99999999 offset 0 bytes 64");
  EXPECT_EQ(late.exit_code, 1);  // well formed, and a fault that check finds
  EXPECT_THAT(late.output, HasSubstr("spans actions 0-99999999 of"));
  for (const char* batch : {"\nbatch 0", "\nbatch -1", "\nbatch 9223372036854775807"})
    EXPECT_EQ(inspect_changed("\nbatch 128", batch).exit_code, 4) << batch;
}

// Actions for every task of a million micro-batches would take gigabytes.
TEST_F(Dumped, ManyMicroBatchesTakeNoMemory) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  std::string micro_batches = "\nmicro_batches";
  for (int i = 0; i < 1'000'000; ++i) micro_batches += " 1";
  const size_t at = text_.find("\nmicro_batches ");
  std::string text = text_;
  text.replace(at, text_.find('\n', at + 1) - at, micro_batches);
  text.replace(text.find("\nbatch 128"), 10, "\nbatch 1000000");
  write_file(path_, text);
  const Outcome outcome = run_program("inspect " + path_, "prlimit --as=1500000000");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("check: "));
}

TEST(Inspect, AFileThatIsMissingIsSaidToBe) {
  const Outcome outcome = run_program("inspect no-such-file.safetensors");
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.errors, HasSubstr("no-such-file.safetensors: No such file"));
  EXPECT_EQ(run_program("inspect /dev/zero").exit_code, 4);
  EXPECT_EQ(run_program("inspect " + ::testing::TempDir()).exit_code, 4);
  EXPECT_THAT(run_program("inspect resnet51").errors, HasSubstr("did you mean"));
  const std::string pipe = ::testing::TempDir() + "cli_pipe";
  ASSERT_EQ(std::system(("rm -f " + pipe + " && mkfifo " + pipe).c_str()), 0);
  EXPECT_EQ(run_program("inspect " + pipe, "timeout 10").exit_code, 4);
  std::filesystem::remove(pipe);
}

}  // namespace
}  // namespace plimsoll::testing
