// Nothing that is given is ignored without a word: numbers have a range, and flags say what they need and contradict.
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kVerbs[] = {"train",  "adapt", "merge", "eval",  "predict",  "plan",   "profile", "inspect",
                                  "report", "save",  "prune", "strip", "quantize", "doctor", "demo",    "bench pack"};

// The flags of a verb whose value is shown as that word: "--epochs" for "-e,--epochs N".
std::vector<std::string> flags_with(const std::string& verb, const std::string& value) {
  std::vector<std::string> flags;
  std::istringstream help(run_program(verb + " --help-all").output);
  for (std::string line; std::getline(help, line);) {
    std::istringstream words(line);
    std::string name, shown;
    if (!line.starts_with("  -") || !(words >> name >> shown) || shown != value) continue;
    const size_t at = name.find("--");
    if (at != std::string::npos) flags.push_back(name.substr(at));
  }
  return flags;
}

// Every flag of every verb, those that are added later too.
TEST(FlagRules, NumbersThatNoFlagMayHaveAreRefused) {
  size_t tried = 0;
  for (const char* verb : kVerbs) {
    for (const char* kind : {"N", "X"})
      for (const std::string& flag : flags_with(verb, kind)) {
        if (flag == "--early-stopping") continue;  // a text, which is read with the training
        for (const char* number : {"-7", "nan", "1e999", "99999999999999999999", "1.5x"}) {
          if (std::string_view(kind) == "X" && std::string_view(number).starts_with("9")) continue;
          const Outcome outcome = run_program(fmt::format("{} {}={}", verb, flag, number));
          EXPECT_EQ(outcome.exit_code, 2) << verb << flag << number;
          EXPECT_THAT(outcome.errors, HasSubstr(fmt::format("{}", number))) << verb << " " << flag;
          ++tried;
        }
      }
  }
  EXPECT_GT(tried, 300U) << "the help texts were read";
}

// A flag for a path that was added without saying what the path is for fails here.
TEST(FlagRules, EveryPathThatIsReadOrWrittenIsKeptApartFromTheOutput) {
  const SmallRun small;
  const std::string path = small.in("train.csv"), before = SmallRun::content(path), other = small.in("test.csv");
  size_t tried = 0;
  for (const char* verb : {"train mlp", "adapt gpt2-small", "merge mlp --adapter a", "predict mlp", "plan mlp",
                           "profile mlp", "save mlp", "prune mlp", "quantize mlp", "demo"}) {
    const std::string words = verb, name = words.substr(0, words.find(' '));
    for (const char* kind : {"FILE", "DIR", "PATH"})
      for (const std::string& flag : flags_with(name, kind)) {
        // The output itself, folders for temporary files, and what is read before all else.
        const bool is_output = run_program(name + " --help-all").output.find("-o," + flag) != std::string::npos;
        const bool is_config = flag == "--config" || (name == "save" && flag == "--run");
        if (is_output || is_config || flag == "--scratch") continue;
        const std::string data = flag == "--val" ? " --data " + other : "";
        const Outcome outcome = run_program(fmt::format("{}{} {}={} -o {}", words, data, flag, path, path));
        EXPECT_EQ(outcome.exit_code, 2) << words << flag << outcome.errors;
        const bool may_replace = flag == "--weights" || flag == "--adapter";  // of what is trained on
        if (!may_replace || name == "predict") {
          EXPECT_THAT(outcome.errors, ::testing::ContainsRegex("would (replace what is read|be written over)"))
              << words << " " << flag;
        }
        ++tried;
      }
  }
  EXPECT_GT(tried, 50U);
  EXPECT_EQ(SmallRun::content(path), before);
}

TEST(FlagRules, WhatWouldDoNothingIsRefused) {
  const SmallRun small;
  const std::string data = "--data " + small.in("train.csv");
  const std::string net = "mlp --image-size 4 --channels 1 --classes 3 --width 8";
  const std::string train = fmt::format("train {} -b 8 --steps 2 --progress none {} ", net, data);
  const std::string prune = fmt::format("prune {} -b 8 --progress none --save {} {} ", net, small.in("w"), data);
  const std::pair<std::string, std::string> cases[] = {
      {train + "--clip -1", "--clip: '-1' is no number above 0"},
      {train + "--steps -1", "--steps: '-1' is no number from 0 on"},
      {train + "--seed -1", "--seed: '-1' is no number from 0 on"},
      {train + "--seed 18446744073709551616", "--seed: '18446744073709551616' is no whole number that fits 64 bits"},
      {train + "--momentum 0.9", "momentum is a setting of sgd, rmsprop and muon alone"},
      {train + "--optimizer lion --momentum 0.9", "momentum is a setting of sgd, rmsprop and muon alone"},
      {train + "--targets fc1", "--targets does nothing without --rank"},
      {train + "--alpha 2", "--alpha does nothing without --rank"},
      {train + "--adapter-dropout 0.1", "--adapter-dropout does nothing without --rank"},
      {train + "--freeze '*' --train-only '*'", "nothing is frozen"},
      {train + "--train-only '*'", "nothing is frozen"},
      {train + "--frozen-type bf16", "say which with --freeze or --train-only"},
      {train + "--checkpoint-every 2", "--checkpoint-every does nothing without --run"},
      {train + "--keep 2", "--keep does nothing without --run"},
      {train + "--histograms 2", "--histograms does nothing without --run"},
      {train + "--restarts 2", "--restarts does nothing without --run"},
      {train + "--restarts 2 --run " + small.in("r"), "--restarts does nothing without --ranks or --pipeline"},
      {train + "--resume", "--resume does nothing without --run"},
      {train + "--rank-timeout 9", "--rank-timeout does nothing without --ranks or --replicas or --pipeline"},
      {train + "--shard state", "--shard does nothing without --ranks or --replicas or --pipeline"},
      {train + "--shuffle 9 --no-shuffle", "--no-shuffle and --shuffle contradict each other"},
      {train + "--half-storage values --policy mixed_float16", "contradict each other: give one of them"},
      {train + "--half-storage state --state-bits 8", "contradict each other: give one of them"},
      {train + "--disk-limit 1GiB", "--scratch DIR"},
      {train + "--disk-limit 1GiB --without spill --scratch " + small.in(""), "does nothing with --without spill"},
      {train + "--train-x a --train-y b", "--data and --train-x contradict each other"},
      {prune + "--epochs 2", "nothing would be pruned: masks are made at step 100 first"},
      {prune + "--epochs 2 --begin 90", "nothing would be pruned: masks are made at step 90 first"},
      {prune + "--end 50", "no step up to 50 is one that makes masks"},
      {prune + "--prune to=0.5", "unknown flag --prune"},
      {prune + "--two-of-four --to 0.3", "--two-of-four and --to contradict each other"},
      {prune + "--largest", "--largest does nothing without --block-height or --block-width"},
      {prune + "--power 2", "--power does nothing without --from"},
      {"plan mlp --label x", "--label does nothing without --data or --train-x or --test-x"},
      {"plan mlp --no-shuffle", "--no-shuffle does nothing without --data"},
      {"plan mlp --val x", "--val does nothing without --data"},
      {"plan mlp --map flip", "--map does nothing without --data"},
      {"plan mlp --curve --dump x", "--curve and --dump contradict each other"},
      {"plan mlp --curve --memory 1GiB", "--curve and --memory contradict each other"},
      {"plan mlp --curve --replicas 2", "--curve and --replicas contradict each other"},
      {"plan mlp --pipeline fc2 --dump x", "--dump and --pipeline contradict each other"},
      {"plan mlp --network 10Gb/s", "give --ranks N with it"},
      {"save mlp --which last -o " + small.in("x"), "--which does nothing without --run"},
      {"inspect " + small.in("train.csv") + " --graph", "--graph"},
      {"inspect " + small.in("train.csv") + " --optimizer sgd", "--optimizer"},
      {"adapt gpt2-small --adapter x --rank 3", "--rank and --adapter contradict each other"},
      {"adapt gpt2-small --adapter x --alpha 3", "--alpha and --adapter contradict each other"},
  };
  for (const auto& [command, message] : cases) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 2) << command << "\n" << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << command;
  }
}

// The same flags beside what they need, and numbers at the ends of their ranges.
TEST(FlagRules, WhatDoesSomethingIsAccepted) {
  const SmallRun small;
  const std::string data = "--data " + small.in("train.csv");
  const std::string net = "mlp --image-size 4 --channels 1 --classes 3 --width 8";
  const std::string train = fmt::format("train {} -b 8 --progress none --epochs 1 {} ", net, data);
  const std::string prune =
      fmt::format("prune {} -b 8 --progress none --epochs 1 --save {} {} ", net, small.in("w"), data);
  for (const std::string& command :
       {train + "--steps 0 --seed 18446744073709551615 --clip 0.1 --optimizer sgd --momentum 0.9",
        train + "--run " + small.in("r") + " --checkpoint-every 2 --keep 1 --histograms 1 --seed 0",
        train + "--freeze '*' --train-only '*/fc1/*'", train + "--half-storage state --state-bits 16",
        train + "--replicas 2 --shard state --rank-timeout 60", prune + "--frequency 4",
        prune + "--end -1 --frequency 4", prune + "--begin 3 --from 0.1 --to 0.4 --end 8 --frequency 2 --power 2",
        std::string("plan mlp --lr 0.1"), "plan " + net + " --label label " + data}) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << command << "\n" << outcome.errors;
  }
}

// A config of a run may have both of what contradicts on a command line.
TEST(FlagRules, AResumedRunKeepsTheWeightsThatItBeganWith) {
  const SmallRun small;
  ASSERT_EQ(run_program(small.command("first", "--steps 2 --save " + small.in("w"))).exit_code, 0);
  ASSERT_EQ(run_program(small.command("run", "--steps 2 --weights " + small.in("w"))).exit_code, 0);
  const Outcome given = run_program(small.resume("run", "--steps 4 --weights " + small.in("w")));
  EXPECT_EQ(given.exit_code, 2);
  EXPECT_THAT(given.errors, HasSubstr("--weights and --resume contradict each other"));
  EXPECT_EQ(run_program(small.resume("run", "--steps 4")).exit_code, 0);
}

}  // namespace
}  // namespace plimsoll::testing
