// Help texts and the answers to mistyped commands.
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Help, OfTrainFitsAScreen) {
  const std::string help = run_program("train --help").output;
  int lines = 0, width = 0, widest = 0;
  for (const char c : help) {
    lines += c == '\n';
    width = c == '\n' ? 0 : width + 1;
    widest = std::max(widest, width);
  }
  EXPECT_LE(lines, 30) << help;
  EXPECT_LE(widest, 80) << help;
  for (const char* part :
       {"Memory:\n", "Data:\n", "Run:\n", "--memory SIZE", "--epochs N", "(default: adam)", "Examples:\n"})
    EXPECT_THAT(help, HasSubstr(part));
  EXPECT_THAT(help, Not(HasSubstr("--disk-limit")));
  EXPECT_THAT(help, HasSubstr("All flags: plimsoll train --help-all"));
}

TEST(Help, AllFlagsAreThoseOfTheShortOneAndMore) {
  for (const char* verb : {"train", "eval", "plan", "profile", "inspect", "doctor", "demo", "bench pack"}) {
    const Outcome brief = run_program(fmt::format("{} --help", verb)),
                  all = run_program(fmt::format("{} --help-all", verb));
    EXPECT_EQ(brief.exit_code, 0);
    EXPECT_EQ(all.exit_code, 0);
    EXPECT_GE(all.output.size() + 60, brief.output.size());
    std::string flag;
    for (const char c : brief.output + "\n") {
      if (c == '-' || (!flag.empty() && std::isalpha(static_cast<unsigned char>(c)) != 0)) {
        flag += c;
        continue;
      }
      const bool is_listed = flag.starts_with("--") && flag != "--help-all";
      EXPECT_TRUE(!is_listed || all.output.find(flag) != std::string::npos) << verb << " " << flag;
      flag.clear();
    }
  }
  EXPECT_THAT(run_program("train --help-all").output, HasSubstr("--disk-limit SIZE"));
}

TEST(Help, HasEightyColumnsAndWholeWords) {
  for (const char* verb : {"train", "adapt", "merge", "eval", "predict", "plan", "profile", "inspect", "report", "save",
                           "prune", "strip", "quantize", "doctor", "demo", "bench pack"}) {
    std::istringstream help(run_program(fmt::format("{} --help-all", verb)).output);
    for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 80U) << verb << ": " << line;
  }
  EXPECT_THAT(run_program("plan --help").output, HasSubstr("micro-batch  the step runs on some samples at a time"));
}

TEST(Help, EveryVerbThatWritesHasO) {
  for (const char* verb : {"train", "adapt", "merge", "predict", "plan", "profile", "save", "prune", "strip",
                           "quantize", "demo", "bench pack"})
    EXPECT_THAT(run_program(fmt::format("{} --help-all", verb)).output, HasSubstr("  -o,--")) << verb;
}

TEST(Usage, UnknownFlagsNameTheNearest) {
  const std::pair<const char*, const char*> cases[] = {
      {"train lenet --epoch 3", "unknown flag --epoch; did you mean --epochs? See plimsoll train --help\n"},
      {"train --epoch 3", "unknown flag --epoch; did you mean --epochs?"},
      {"train lenet --epoch=3", "unknown flag --epoch; did you mean --epochs?"},
      {"eval lenet --weigths x", "unknown flag --weigths; did you mean --weights?"},
      {"plan lenet --mem 1G", "unknown flag --mem; did you mean --memory?"},
      {"profile lenet --topp 3", "unknown flag --topp; did you mean --top?"},
      {"inspect lenet --al", "unknown flag --al; did you mean --all?"},
      {"doctor --mesure", "unknown flag --mesure; did you mean --measure?"},
      {"demo --epoch 1", "unknown flag --epoch; did you mean --epochs?"},
      {"bench pack x --capcity 3", "did you mean --capacity? See plimsoll bench pack --help\n"},
      {"plan lenet --xylophone", "unknown flag --xylophone; see plimsoll plan --help\n"},
      {"--versoin", "unknown flag --versoin; did you mean --version?"},
      {"trian lenet --epochs 3", "unknown verb 'trian'; did you mean train? See plimsoll --help\n"},
      {"fly", "unknown verb 'fly'; see plimsoll --help\n"},
      {"plan lenet mlp", "'mlp' is one argument too many; see plimsoll plan --help\n"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  }
}

}  // namespace
}  // namespace plimsoll::testing
