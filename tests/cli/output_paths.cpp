// What a command writes may not replace what it reads, or what else it writes: known before anything runs.
#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputPaths : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome trained = run_program(train("--save " + in("w") + " --save-model " + in("m")));
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    fs::create_hard_link(in("train.csv"), in("hard.csv"));
    fs::create_symlink(in("train.csv"), in("soft.csv"));
    fs::create_symlink(in("m"), in("link"));
    fs::create_directory(in("folder"));
    fs::copy(in("train.csv"), in("folder/train.csv"));
    fs::copy(in("test.csv"), in("folder/test.csv"));
  }
  std::string in(const std::string& name) const { return small.in(name); }
  std::string net() const { return "mlp --image-size 4 --channels 1 --classes 3 --width 8"; }
  std::string train(const std::string& more) const {
    return fmt::format("train {} -b 8 --steps 2 --progress none --data {} {}", net(), in("train.csv"), more);
  }
  std::map<std::string, std::string> all_files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(in("")))
      if (entry.is_regular_file()) found[entry.path().string()] = SmallRun::content(entry.path().string());
    return found;
  }
  void expect_refused(const std::string& command, const std::string& message) const {
    const auto before = all_files();
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 2) << command << "\n" << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << command;
    EXPECT_EQ(outcome.output, "") << "before anything runs: " << command;
    EXPECT_TRUE(all_files() == before) << command;
  }
  const SmallRun small;
};

TEST_F(OutputPaths, AreNoInputs) {
  const std::string replaced = "would replace what is read";
  for (const char* data : {"train.csv", "./train.csv", "folder/../train.csv", "hard.csv", "soft.csv"})
    expect_refused(train("--save " + in(data)), replaced);
  const std::string of_folder = fmt::format("train {} -b 8 --steps 2 --progress none --data {} ", net(), in("folder"));
  expect_refused(of_folder + "--save " + in("folder/train.csv"), replaced);
  expect_refused(of_folder + "--save-model " + in("folder"), replaced);
  expect_refused(fmt::format("plan {} --data {} --dump {}", net(), in("train.csv"), in("train.csv")), replaced);
  expect_refused(fmt::format("profile {} --data {} --trace {}", net(), in("train.csv"), in("hard.csv")), replaced);
  expect_refused(fmt::format("predict {} --data {} --output {}", in("m"), in("test.csv"), in("test.csv")), replaced);
  expect_refused(fmt::format("predict {} --data {} -o {}", in("m"), in("test.csv"), in("m/graph.txt")), replaced);
  expect_refused(fmt::format("train {} --data {} --save {}", in("m"), in("train.csv"), in("m/weights.safetensors")),
                 replaced);
  expect_refused(fmt::format("train {} --data {} --save {}", in("m"), in("train.csv"), in("link/weights.safetensors")),
                 replaced);
  for (const char* model : {"m", "link", "m/"}) {
    expect_refused(fmt::format("quantize {} --data {} -o {}", in(model), in("train.csv"), in("m")), replaced);
    expect_refused(fmt::format("strip {} -o {}", in(model), in("m")), replaced);
    expect_refused(fmt::format("strip {} -o {}", in("m"), in(model)), replaced);
  }
  expect_refused(fmt::format("save {} --weights {} -o {}", net(), in("w"), in("w")), replaced);
  expect_refused("bench pack " + in("train.csv") + " --out " + in("train.csv"), replaced);
}

TEST_F(OutputPaths, AreNotEachOther) {
  const std::string both = "would be written over each other";
  expect_refused(train(fmt::format("--save {} --save-model {}", in("a"), in("a"))), both);
  expect_refused(train(fmt::format("--save {} --save-model {}", in("m/other"), in("m"))), both);
  expect_refused(train(fmt::format("--save {} --run {}", in("folder/config.json"), in("folder"))), both);
  expect_refused(train(fmt::format("--save-model {} --run {}", in("r"), in("r"))), both);
}

TEST_F(OutputPaths, AreInFoldersThatCanBeWritten) {
  expect_refused(train("--save " + in("none/w")), "No such file or directory");
  expect_refused(train("--save-model " + in("none/m")), "No such file or directory");
  expect_refused(train("--save " + in("folder")), "it is a directory");
  expect_refused(train("--save-model " + in("folder")), "holds '");
  expect_refused("plan mlp --dump " + in("train.csv/x"), "is no folder");
  expect_refused(fmt::format("strip {} -o /proc/m", in("m")), "/proc/m");
  const std::string adapt = "adapt gpt2-small --layers 1 --width 8 --sequence 4 --classes 5 --data " + in("train.csv");
  expect_refused(adapt + " -o " + in("train.csv"), "train.csv");
}

// What is trained on takes the place of what it was; names of built-in models are no files; devices take everything.
TEST_F(OutputPaths, MayBeWhatTheyContinue) {
  for (const std::string& command :
       {fmt::format("train {} -b 8 --steps 2 --progress none --data {} --save-model {}", in("m"), in("train.csv"),
                    in("m")),
        train(fmt::format("--weights {} --save {}", in("w"), in("w"))),
        train(fmt::format("--save {}", in("folder/w.safetensors"))),
        train(fmt::format("--save {}", in("folder/w.safetensors"))), train("--save /dev/null"),
        train(fmt::format("--run {} --save-model {}", in("r"), in("n")))}) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << command << outcome.errors;
  }
}

}  // namespace
}  // namespace plimsoll::testing
