// The command line as a user meets it: verbs, exit codes, messages, JSON.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
constexpr const char* kData = "--data /usr/share/datasets/fashion-mnist";

std::string temp(const std::string& name) { return ::testing::TempDir() + "cli_" + name; }

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(Cli, WrongUseIsExitCodeTwo) {
  for (const char* arguments :
       {"", "fly", "train", "plan", "plan mlp --batch -3", "plan mlp --memory", "plan mlp --memory 12parsecs",
        "plan mlp --memory 80000%", "train mlp", "plan mlp --optimizer magic", "plan mlp --half-storage weights",
        "train mlp --data . --progress loud"}) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << "\n" << outcome.errors;
    EXPECT_FALSE(outcome.errors.empty()) << arguments;
  }
}

TEST(Cli, UnknownModelNamesTheKnown) {
  const Outcome outcome = run_program("plan resnet51");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("resnet50"));
}

TEST(Cli, PlanOfEveryModelFitsItsOwnPeak) {
  for (const char* model : {"mlp", "lenet", "fashion", "resnet18", "resnet50", "mobilenet_v2", "vgg16", "unet",
                            "bert-base", "gpt2-small"}) {
    const Outcome outcome = run_program(fmt::format("plan {} --json --memory 20GiB", model));
    ASSERT_EQ(outcome.exit_code, 0) << model << outcome.errors;
    const auto plan = nlohmann::json::parse(outcome.output);
    EXPECT_EQ(plan["line_bytes"], 20LL << 30);
    EXPECT_LE(plan["lower_bound_bytes"], plan["planned_peak_bytes"]) << model;
    EXPECT_LE(plan["planned_peak_bytes"], plan["unconstrained_bytes"]) << model;
    EXPECT_EQ(plan["exactness"], "bit-identical");
  }
}

class SmallestLine : public ::testing::TestWithParam<const char*> {};

TEST_P(SmallestLine, IsWithinFivePercentOfTheLowerBound) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  constexpr const char* kWhole = "--without micro-batch,spill";  // micro-batches have bounds of their own
  const Outcome refused = run_program(fmt::format("plan {} --json --memory 1MiB {}", GetParam(), kWhole));
  ASSERT_EQ(refused.exit_code, 3) << refused.errors;
  const Outcome planned = run_program(fmt::format("plan {} --json --memory 20GiB {}", GetParam(), kWhole));
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  const auto need = nlohmann::json::parse(refused.output).at("need_bytes").get<double>();
  EXPECT_LE(need, 1.05 * nlohmann::json::parse(planned.output).at("lower_bound_bytes").get<double>());
}

INSTANTIATE_TEST_SUITE_P(Models, SmallestLine,
                         ::testing::Values("mlp", "lenet", "fashion", "resnet18", "resnet50", "mobilenet_v2", "vgg16",
                                           "unet", "bert-base", "gpt2-small", "dense-chain"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Cli, BadDataIsExitCodeFourAndNamesTheFile) {
  write_file(temp("x.npy"), "not an array");
  write_file(temp("y.npy"), "");
  for (const std::string& arguments :
       {fmt::format("train mlp --train-x {} --train-y {}", temp("x.npy"), temp("y.npy")),
        std::string("train mlp --train-x /no/such/file --train-y /no/such/file"),
        std::string("train mlp --data /no/such"), fmt::format("train resnet18 --image-size 32 {}", kData)}) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 4) << arguments << "\n" << outcome.errors;
    EXPECT_THAT(outcome.errors, ::testing::AnyOf(HasSubstr("x.npy"), HasSubstr("/no/such"), HasSubstr("idx")))
        << arguments;
  }
}

TEST(Cli, SavedWeightsAreEvaluatedAndInspected) {
  const std::string file = temp("weights.safetensors");
  const Outcome trained = run_program(fmt::format("train mlp {} --steps 60 --json --save {}", kData, file));
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const Outcome evaluated = run_program(fmt::format("eval mlp {} --weights {} --json", kData, file));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  const auto result = nlohmann::json::parse(evaluated.output);
  EXPECT_EQ(result["samples"], 10000);
  EXPECT_GT(result["accuracy"], 0.6);
  const Outcome inspected = run_program("inspect " + file);
  EXPECT_EQ(inspected.exit_code, 0);
  EXPECT_THAT(inspected.output, HasSubstr("mlp/fc1/kernel"));
  // The same weights, read from the file: training goes on from them.
  EXPECT_EQ(run_program(fmt::format("train mlp {} --steps 2 --weights {}", kData, file)).exit_code, 0);
}

TEST(Cli, DamagedWeightsAreRefused) {
  const std::string file = temp("damaged.safetensors");
  ASSERT_EQ(run_program(fmt::format("train mlp {} --steps 1 --save {}", kData, file)).exit_code, 0);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const Outcome truncated = run_program(fmt::format("eval mlp {} --weights {}", kData, file));
  EXPECT_EQ(truncated.exit_code, 4);
  EXPECT_THAT(truncated.errors, HasSubstr("truncated"));
  write_file(file, "garbage that is long enough");
  EXPECT_EQ(run_program(fmt::format("eval mlp {} --weights {}", kData, file)).exit_code, 4);
  const std::string other = temp("lenet.safetensors");
  ASSERT_EQ(run_program(fmt::format("train lenet {} --steps 1 --save {}", kData, other)).exit_code, 0);
  const Outcome wrong = run_program(fmt::format("eval mlp {} --weights {}", kData, other));
  EXPECT_EQ(wrong.exit_code, 4);
  EXPECT_THAT(wrong.errors, HasSubstr("belongs to another model"));
}

TEST(Cli, APlaceThatCantBeWrittenIsRefusedBeforeTraining) {
  const Outcome outcome = run_program(fmt::format("train mlp {} --epochs 1000 --save /dev/full/x", kData));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("'/dev/full/x' can't be written"));
}

TEST(Cli, ASignalStopsBetweenStepsAndKeepsTheWeights) {
  const std::string file = temp("stopped.safetensors");
  std::filesystem::remove(file);
  const Outcome outcome =
      run_program(fmt::format("train fashion {} --epochs 50 --save {}", kData, file), "timeout -s INT 6");
  EXPECT_EQ(outcome.exit_code, 124) << "timeout says that it had to send the signal";
  EXPECT_THAT(outcome.errors, HasSubstr("stopped by a signal; the weights are in"));
  EXPECT_EQ(run_program("inspect " + file).exit_code, 0);
}

TEST(Cli, NumbersThatGoBadAreExitCodeSix) {
  const Outcome outcome = run_program(fmt::format("train mlp {} --steps 200 --optimizer sgd --lr 1e30", kData));
  EXPECT_EQ(outcome.exit_code, 6) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("smaller --lr"));
}

TEST(Cli, InspectPrintsTheGraphAsText) {
  const Outcome outcome = run_program("inspect mlp --graph");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("plimsoll graph 1\nplaceholder input f32[B,1,28,28]"));
}

TEST(Cli, PacksATable) {
  const std::string table = temp("table.csv");
  const std::string offsets = temp("offsets.csv");
  write_file(table, "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\n");
  const Outcome outcome = run_program(fmt::format("bench pack {} --capacity 8 --out {}", table, offsets));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  std::ifstream file(offsets);
  std::string header;
  std::getline(file, header);
  EXPECT_EQ(header, "id,lower,upper,size,offset");
  EXPECT_EQ(run_program(fmt::format("bench pack {} --capacity 7", table)).exit_code, 3);
  write_file(table, "id,lower,upper\na,0,3\n");
  EXPECT_EQ(run_program(fmt::format("bench pack {}", table)).exit_code, 4);
}

TEST(Cli, TheTargetOfSaveIsRefusedBeforeTraining) {
  const std::string folder = temp("targets");
  std::filesystem::create_directory(folder);
  for (const std::string& target : {folder, folder + "/none/w", folder + "/" + std::string(300, 'n')}) {
    const Outcome outcome =
        run_program(fmt::format("train mlp {} --epochs 1000 --save {}", kData, target), "timeout 20");
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("'" + target + "' can't be written"));
    EXPECT_EQ(outcome.output, "");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(Cli, WeightsGoThroughDevicesPipesAndLinks) {
  const std::string pipe = temp("save_pipe"), link = temp("save_link"), target = temp("save_target");
  ASSERT_EQ(std::system(fmt::format("rm -f {0} {1} {2} && mkfifo {0} && ln -s {2} {1}", pipe, link, target).c_str()),
            0);
  const auto train = [](const std::string& where, const std::string& before = "timeout 60") {
    return run_program(fmt::format("train mlp {} --steps 1 --save {}", kData, where), before).exit_code;
  };
  EXPECT_EQ(train("/dev/null"), 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(train("/dev/full"), 5);
  EXPECT_EQ(train(pipe, fmt::format("cat {} > {} & timeout 60", pipe, target)), 0);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(run_program("inspect " + target).exit_code, 0);
  EXPECT_EQ(train(link), 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(run_program("inspect " + link).exit_code, 0);
  for (const std::string& path : {pipe, link, target}) std::filesystem::remove(path);
}

TEST(Cli, WeightsFromAPipeOrADeviceAreRefusedAtOnce) {
  const std::string pipe = temp("weights_pipe");
  ASSERT_EQ(std::system(fmt::format("rm -f {0} && mkfifo {0}", pipe).c_str()), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), ::testing::TempDir()}) {
    const Outcome outcome = run_program(fmt::format("eval mlp {} --weights {}", kData, path), "timeout 20");
    EXPECT_EQ(outcome.exit_code, 4) << path << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(path));
  }
  std::filesystem::remove(pipe);
}

}  // namespace
}  // namespace plimsoll::testing
