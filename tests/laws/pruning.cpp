// Pruned and stripped models of the program, on Fashion-MNIST: the line holds, accuracy stays, files and processes are
// smaller.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
constexpr Bytes kLine = testing::kSanitized ? GiB : 64 * MiB;

class PruningLaws : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return files.path() + "/" + name; }
  nlohmann::json run(const std::string& arguments, const char* event) const {
    const Outcome done = run_program(arguments + " --json");
    EXPECT_EQ(done.exit_code, 0) << arguments << "\n" << done.errors;
    return done.event(event);
  }
  nlohmann::json strip(const char* from, const char* to) const {
    return run(fmt::format("strip {} -o {} --memory {}", path(from), path(to), kLine * 3 / 4), "strip");
  }
  double accuracy(const char* model) const {
    return run(fmt::format("eval {} {} --memory {}", path(model), kData, kLine), "eval").value("accuracy", 0.0);
  }
  const testing::TemporaryDirectory files;
};

TEST_F(PruningLaws, FourFifthsOfFashionMnistGoForLessThanAPoint) {
  const std::string train = fmt::format("mlp {} --memory {} --batch 100 --progress none", kData, kLine);
  run(fmt::format("train {} --epochs 2 --save-model {}", train, path("dense")), "end");
  const auto end = run(fmt::format("prune {} --epochs 3 --from 0.5 --to 0.8 --begin 100 --end 1200 --frequency 50 "
                                   "--save-model {} {}",
                                   path("dense"), path("pruned"), train.substr(4)),
                       "end");
  EXPECT_LE(end["measured_peak_bytes"].get<Bytes>(), kLine);
  const auto report = strip("pruned", "small");
  const double dense = accuracy("dense"), small = accuracy("small");
  RecordProperty("dense", fmt::format("{}", dense));
  EXPECT_GT(dense, 0.8);
  EXPECT_GT(small, dense - 0.01);
  EXPECT_EQ(small, accuracy("pruned"));
  Bytes before = 0, after = 0;
  for (const auto& weight : report["weights"]) {
    before += weight["bytes_before"].get<Bytes>();
    after += weight["bytes_after"].get<Bytes>();
  }
  EXPECT_EQ(report["weights"].size(), 3U);
  EXPECT_GE(before, 4 * after);
  const auto file = [&](const char* name) { return std::filesystem::file_size(path(name) + "/weights.safetensors"); };
  EXPECT_GE(file("pruned"), 4 * file("small"));
  EXPECT_THAT(run_program("inspect " + path("small")).output, HasSubstr("80.0 %"));
}

// 81 MB of weights: what a process takes beside them does not hide the difference.
TEST_F(PruningLaws, PredictingTakesLessMemory) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  run(fmt::format("train mlp --width 4096 {} --memory 400MiB --batch 16 --steps 1 --optimizer sgd --prune "
                  "to=0.8,begin=1 --progress none --save-model {}",
                  kData, path("pruned")),
      "end");
  strip("pruned", "small");
  const auto peak = [&](const char* model, const char* line) {
    return run(fmt::format("predict {} {} --memory {} --batch 16 --output {}", path(model), kData, line, path("y.npy")),
               "predict")
        .value("measured_peak_bytes", Bytes{0});
  };
  const Bytes dense = peak("pruned", "160MiB"), small = peak("small", "48MiB");
  EXPECT_GT(dense, 80 * MiB);
  EXPECT_GT(small, 0);
  // 77 MiB of weights become 18 MiB.
  EXPECT_GT(dense - small, 55 * MiB) << small;
}

TEST_F(PruningLaws, PrunesInAControlGroupOfExactlyTheLine) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const std::string command =
      fmt::format("train fashion {} --batch 64 --steps 30 --prune from=0.2,to=0.8,begin=1,end=25,frequency=4", kData);
  const Outcome refused = run_program(command + " --json --memory 1MiB");
  EXPECT_EQ(refused.exit_code, 3) << refused.errors;
  const Bytes line = nlohmann::json::parse(refused.output, nullptr, false).value("smallest_line_bytes", Bytes{0});
  ASSERT_GT(line, 0);
  const testing::LimitedOutcome result = testing::run_limited(
      {"/bin/sh", "-c", fmt::format("exec {} {} --memory {} >/dev/null", PLIMSOLL_BINARY, command, line)}, line);
  if (!result.run) GTEST_SKIP() << "no control group could be made (" << result.reason << ")";
  EXPECT_FALSE(result.run->oom_killed);
  EXPECT_EQ(result.run->exit_code, 0);
}

TEST_F(PruningLaws, BadInputIsOneClearError) {
  const auto refusal = [](const std::string& arguments) {
    const Outcome refused = run_program(arguments);
    EXPECT_EQ(refused.exit_code, 2) << arguments;
    return refused.errors;
  };
  const std::string prune = fmt::format("prune mlp {} --memory 64MiB --save-model {} ", kData, path("none"));
  EXPECT_THAT(refusal(prune + "--from 0.5 --begin 10 --end 5"), HasSubstr("before it begins at step 10"));
  EXPECT_THAT(refusal(prune + "--to 1"), HasSubstr("a share of 1 zeros"));
  EXPECT_THAT(refusal(prune + "--to=-0.5"), HasSubstr("--to: '-0.5' is no number from 0 on"));
  EXPECT_THAT(refusal(prune + "--frequency 0"), HasSubstr("--frequency: '0' is no number above 0"));
  EXPECT_THAT(refusal(prune + "--layer conv9"), HasSubstr("matches 'conv9'"));
  EXPECT_THAT(refusal("prune mlp --memory 64MiB"), HasSubstr("--save-model"));
  const std::string train =
      fmt::format("train mlp {} --width 64 --memory {} --steps 3 --progress none --save-model ", kData, kLine);
  run_program(train + path("dense"));
  EXPECT_THAT(refusal(fmt::format("strip {} -o {}", path("dense"), path("none"))), HasSubstr("nothing to strip"));
  run_program(train + path("pruned") + " --prune to=0.8,begin=1");
  strip("pruned", "small");
  EXPECT_THAT(refusal(fmt::format("strip {} -o {}", path("small"), path("none"))), HasSubstr("stripped already"));
  EXPECT_THAT(refusal(fmt::format("prune {} {} --memory 64MiB --save-model {}", path("small"), kData, path("none"))),
              HasSubstr("can't be trained"));
  EXPECT_FALSE(std::filesystem::exists(path("none")));
}

}  // namespace
}  // namespace plimsoll
