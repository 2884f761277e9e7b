// train --run and --resume: a stopped run goes on as if it had not been stopped, and damage is reported.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class Resume : public ::testing::Test {
 protected:
  Outcome start(const std::string& run, const std::string& more) const { return run_program(small.command(run, more)); }
  Outcome go_on(const std::string& run, const std::string& more = "") const {
    return run_program(small.resume(run, more));
  }
  // All variables as they are at the end.
  std::string saved(const std::string& run) const { return SmallRun::content(small.in(run + ".safetensors")); }
  std::string save_flag(const std::string& run) const { return "--save " + small.in(run + ".safetensors"); }
  const SmallRun small;
};

TEST_F(Resume, EqualsNotHavingStopped) {
  ASSERT_EQ(start("whole", "--epochs 13 --steps 100 " + save_flag("whole")).exit_code, 0);
  // In the middle of an epoch, under another line, with more threads that read the data.
  const Outcome first = start("parts", "--epochs 13 --steps 50 --checkpoint-every 20");
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(small.newest_step("parts"), 50);
  EXPECT_EQ(small.checkpoints("parts").size(), 3U);
  const Outcome rest =
      go_on("parts", "--steps 100 --memory 64MiB --data-threads 3 --threads 2 --json " + save_flag("parts"));
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_EQ(rest.event("resume").value("steps", 0), 50);
  EXPECT_EQ(rest.event("resume").value("epoch_steps", 0), 2);
  EXPECT_EQ(small.newest_step("parts"), 100);
  ASSERT_FALSE(saved("whole").empty());
  EXPECT_EQ(saved("parts"), saved("whole"));
}

TEST_F(Resume, APruningGoesOnWithItsLayersAndIsSaved) {
  const auto pruning = [&](const std::string& run, const std::string& more) {
    std::string command = small.command(run, more);
    return run_program(command.replace(0, 5, "prune"));
  };
  const std::string how = "--to 0.5 --frequency 2 --layer fc1 --layer fc2,head ";
  ASSERT_EQ(pruning("whole", how + "--epochs 3 " + save_flag("whole")).exit_code, 0);
  const Outcome first = pruning("parts", how + "--epochs 3 --steps 10");
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const Outcome rest = run_program(
      fmt::format("prune --run {} --resume --progress none --steps 24 {}", small.in("parts"), save_flag("parts")));
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  ASSERT_FALSE(saved("whole").empty());
  EXPECT_EQ(saved("parts"), saved("whole"));
  const Outcome stored = run_program(fmt::format("save --run {} -o {}", small.in("parts"), small.in("stored")));
  EXPECT_EQ(stored.exit_code, 0) << stored.errors;
}

// Killed between the row of an epoch and the checkpoint after it: the newest checkpoint is of the epoch's last step.
TEST_F(Resume, AnEpochHasOneRow) {
  ASSERT_EQ(start("run", "--epochs 3 --checkpoint-every 1 --keep 100").exit_code, 0);
  for (const std::string& checkpoint : small.checkpoints("run"))
    if (std::stoll(checkpoint.substr(checkpoint.rfind('-') + 1)) > 2 * SmallRun::kEpochSteps)
      fs::remove_all(checkpoint);
  const auto rows = [&](const char* file) {
    const std::string text = SmallRun::content(small.in(std::string("run/") + file));
    return std::ranges::count(text, '\n');
  };
  ASSERT_EQ(rows("metrics.jsonl"), 3);
  ASSERT_EQ(go_on("run").exit_code, 0);
  EXPECT_EQ(rows("metrics.jsonl"), 3);
  EXPECT_EQ(rows("metrics.csv"), 4);
}

TEST_F(Resume, AFinishedRunIsFinished) {
  ASSERT_EQ(start("run", "--epochs 2").exit_code, 0);
  const Outcome again = go_on("run", save_flag("run"));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_THAT(again.output, HasSubstr("16 steps done, epoch 3 after 0 of its steps"));
  EXPECT_FALSE(saved("run").empty());
  EXPECT_EQ(small.checkpoints("run").size(), 2U) << "nothing new is written";
  EXPECT_EQ(go_on("run", "--epochs 3").exit_code, 0);
  EXPECT_EQ(small.newest_step("run"), 24);
}

TEST_F(Resume, ARateOfTheCommandLineCountsMoreThanThatOfTheRun) {
  ASSERT_EQ(start("run", "--epochs 1 --lr 0.004").exit_code, 0);
  ASSERT_EQ(go_on("run", "--epochs 2 " + save_flag("run")).exit_code, 0);
  const auto rate = [&] {
    return start("look", "--steps 1 --json --weights " + small.in("run.safetensors"))
        .event("weights")
        .value("learning_rate", 0.0);
  };
  EXPECT_NEAR(rate(), 0.004, 1e-6);
  fs::remove_all(small.in("look"));
  ASSERT_EQ(go_on("run", "--epochs 3 --lr 0.02 " + save_flag("run")).exit_code, 0);
  EXPECT_NEAR(rate(), 0.02, 1e-6);
}

TEST_F(Resume, ADamagedCheckpointIsPassedOverAndSaid) {
  ASSERT_EQ(start("run", "--epochs 3").exit_code, 0);
  const std::string newest = small.checkpoints("run").back();
  SmallRun::flip_byte(newest + "/weights.safetensors", 700);
  const Outcome outcome = go_on("run", save_flag("run"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr(fmt::format("checkpoint '{}' is passed over: ", newest)));
  EXPECT_THAT(outcome.output, HasSubstr("16 steps done, epoch 3"));
  ASSERT_EQ(start("whole", "--epochs 3 " + save_flag("whole")).exit_code, 0);
  EXPECT_EQ(saved("run"), saved("whole"));
  for (const std::string& path : small.checkpoints("run")) fs::remove(path + "/manifest.json");
  const Outcome none = go_on("run");
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_THAT(none.errors, HasSubstr("is whole; checkpoint '"));
}

TEST_F(Resume, AnotherTrainingIsRefusedWithWhatDiffers) {
  ASSERT_EQ(start("run", "--epochs 1").exit_code, 0);
  const Outcome wide = go_on("run", "--width 16");
  EXPECT_EQ(wide.exit_code, 2);
  EXPECT_THAT(wide.errors, HasSubstr("its number of weights is "));
  const Outcome batch = go_on("run", "--batch 4");
  EXPECT_EQ(batch.exit_code, 2);
  EXPECT_THAT(batch.errors, HasSubstr("its batch is 8, here it is 4"));
  const Outcome seed = go_on("run", "--seed 9");
  EXPECT_EQ(seed.exit_code, 2);
  EXPECT_THAT(seed.errors, HasSubstr("seed"));
}

// Contents decide, and not the path: at the end of an epoch and within one.
TEST_F(Resume, OtherDataIsRefusedWhereverItLies) {
  const std::string table = SmallRun::content(small.in("train.csv")), header = table.substr(0, table.find('\n') + 1);
  std::string labels = table, numbers = table;
  for (size_t at = labels.find('\n', header.size()); at != std::string::npos; at = labels.find('\n', at + 1))
    labels[at - 1] = labels[at - 1] == '0' ? '1' : '0';
  std::replace(numbers.begin() + static_cast<std::ptrdiff_t>(header.size()), numbers.end(), '7', '6');
  const std::string fewer = table.substr(0, table.rfind('\n', table.size() - 2) + 1);
  const std::string more = table + table.substr(header.size());
  fs::create_directory(small.in("copy"));
  for (const char* steps : {"", "--steps 5"}) {
    const std::string run = fmt::format("run{}", std::string(steps).size());
    ASSERT_EQ(start(run, fmt::format("--epochs 1 {}", steps)).exit_code, 0);
    for (const std::string& other : {labels, numbers, fewer, more}) {
      std::ofstream(small.in("train.csv")) << other;
      const Outcome refused = go_on(run, "--epochs 2 --steps 12");
      EXPECT_EQ(refused.exit_code, 2);
      EXPECT_THAT(refused.errors, HasSubstr("another dataset than '"));
    }
    std::ofstream(small.in("copy/moved.csv")) << table;
    const Outcome moved = go_on(run, "--epochs 2 --steps 12 --data " + small.in("copy/moved.csv"));
    EXPECT_EQ(moved.exit_code, 0) << moved.errors;
    std::ofstream(small.in("train.csv")) << table;
  }
}

// Scores choose the best epoch and end a training, so they are those of the same samples.
TEST_F(Resume, OtherDataToValidateWithIsRefused) {
  const std::string path = small.in("test.csv"), table = SmallRun::content(path);
  ASSERT_EQ(start("run", "--epochs 1").exit_code, 0);
  std::string other = table;
  std::replace(other.begin() + static_cast<std::ptrdiff_t>(table.find('\n')), other.end(), '7', '6');
  std::ofstream(path) << other;
  const Outcome refused = go_on("run", "--epochs 2");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr(fmt::format("another dataset than '{}'", path)));
  std::ofstream(path) << table;
  EXPECT_EQ(go_on("run", "--epochs 2").exit_code, 0);
}

TEST_F(Resume, WithoutARunIsRefused) {
  EXPECT_EQ(run_program("train mlp --resume").exit_code, 2);
  const Outcome none = go_on("nothing", "mlp --data " + small.in("train.csv"));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("holds no run that could be resumed"));
  const Outcome unit = start("run", "--checkpoint-every 3days");
  EXPECT_EQ(unit.exit_code, 2);
  EXPECT_THAT(unit.errors, HasSubstr("--checkpoint-every '3days' is no interval"));
}

TEST_F(Resume, AFolderThatCanNotBeWrittenIsRefusedBeforeTraining) {
  ASSERT_EQ(start("run", "--epochs 1").exit_code, 0);
  fs::remove_all(small.in("run/checkpoints"));
  std::ofstream(small.in("run/checkpoints")) << "a file";
  const Outcome outcome = go_on("run", "--epochs 2");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("checkpoints can't be written to '"));
}

TEST_F(Resume, ABadLossKeepsTheLastGoodCheckpoint) {
  ASSERT_EQ(start("run", "--epochs 1 --optimizer sgd").exit_code, 0);
  const Outcome bad = go_on("run", "--epochs 40 --lr 1e30");
  EXPECT_EQ(bad.exit_code, 6) << bad.errors;
  EXPECT_THAT(bad.errors, HasSubstr("at step "));
  EXPECT_EQ(small.newest_step("run"), 8);
  const Outcome named = go_on("run", "--epochs 40 --lr 1e30 --debug-nan");
  EXPECT_EQ(named.exit_code, 6) << named.errors;
  EXPECT_THAT(named.errors,
              ::testing::ContainsRegex("'[a-z0-9/_]+' wrote -?(inf|nan) at step [0-9]+, before all other"));
  EXPECT_EQ(go_on("run", "--epochs 2 --lr 0.01").exit_code, 0) << "the last good checkpoint is there";
}

}  // namespace
}  // namespace plimsoll::testing
