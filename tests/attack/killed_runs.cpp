// Real runs that are killed at any moment, and disks that fill up: what is there can be resumed, and resumed it ends as
// if nothing had happened.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attack/effort.h"
#include "support/sanitizer.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Starts the program; its output goes to the file `words`.
pid_t start(const std::string& arguments, const std::string& words) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int file = ::open(words.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::execl("/bin/sh", "sh", "-c", fmt::format("exec {} {}", PLIMSOLL_BINARY, arguments).c_str(), nullptr);
  ::_exit(127);
}

int64_t kills_wanted() {
  const char* const text = std::getenv("PLIMSOLL_KILLS");
  return text == nullptr ? 50 : std::atoll(text);
}

TEST(KilledRuns, EndWithTheWeightsOfAnUndisturbedOne) {
  const SmallRun small;
  const std::string words = small.in("words");
  std::mt19937 random(20);
  int64_t step = 0, kills = 0;
  for (const Effort effort(kills_wanted(), 1.0 / 8); effort.goes_on(kills); ++kills) {
    // A checkpoint at each step: most kills hit while one is written.
    const bool goes_on = fs::exists(small.in("run/config.json"));
    const pid_t child =
        start(goes_on ? small.resume("run") : small.command("run", "--epochs 1000000 --checkpoint-every 1"), words);
    ::usleep(20'000 + random() % 400'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the run ended by itself: " << SmallRun::content(words);
    ASSERT_THAT(SmallRun::content(words), ::testing::Not(HasSubstr("is passed over")));
    ASSERT_GE(small.newest_step("run"), step);
    step = small.newest_step("run");
  }
  fmt::print("{} kills, {} steps\n", kills, step);
  ASSERT_GT(step, 0);
  const std::string end = fmt::format("--epochs {} --checkpoint-every 1h --save ", step / SmallRun::kEpochSteps + 2);
  const Outcome last = run_program(small.resume("run", end + small.in("killed")));
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_THAT(last.output, HasSubstr(fmt::format(": {} steps done", step)));
  const Outcome whole = run_program(small.command("whole", end + small.in("undisturbed")));
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_EQ(SmallRun::content(small.in("killed")), SmallRun::content(small.in("undisturbed")));
  for (const auto& entry : fs::directory_iterator(small.in("run/checkpoints")))
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
}

TEST(KilledRuns, ASignalWritesACheckpointAndIsExitCode75) {
  const SmallRun small;
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string run = fmt::format("run{}", signal);
    const pid_t child = start(small.command(run, "--epochs 1000000 --checkpoint-every 1h"), small.in("words"));
    const auto metrics = [&] { return SmallRun::content(small.in(run + "/metrics.csv")).size(); };
    for (int i = 0; i < 3000 && metrics() < 200; ++i) ::usleep(10'000);
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 75) << SmallRun::content(small.in("words"));
    EXPECT_THAT(SmallRun::content(small.in("words")), HasSubstr("--resume"));
    const int64_t step = small.newest_step(run);
    EXPECT_GT(step, 0);
    EXPECT_EQ(small.checkpoints(run).size(), 1U);
    const std::string end = fmt::format("--epochs {} --save ", step / SmallRun::kEpochSteps + 2);
    ASSERT_EQ(run_program(small.resume(run, end + small.in("stopped"))).exit_code, 0);
    ASSERT_EQ(run_program(small.command(run + "whole", end + small.in("whole"))).exit_code, 0);
    EXPECT_EQ(SmallRun::content(small.in("stopped")), SmallRun::content(small.in("whole")));
  }
}

// A disk of so many bytes, where mounting one is allowed.
class SmallDisk {
 public:
  SmallDisk(std::string path, int64_t bytes) : path_(std::move(path)) {
    fs::create_directory(path_);
    is_mounted_ = ::mount("none", path_.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }

 private:
  std::string path_;
  bool is_mounted_;
};

TEST(KilledRuns, AFullDiskKeepsTheOldCheckpointAndIsExitCodeFive) {
  const SmallRun small;
  const SmallDisk disk(small.in("disk"), 300'000);
  if (!disk.is_mounted()) GTEST_SKIP() << "this process may not mount a small disk";
  const Outcome full = run_program(small.command("disk/run", "--width 64 --epochs 20 --keep 9"));
  EXPECT_EQ(full.exit_code, 5) << full.output << full.errors;
  EXPECT_THAT(full.errors,
              ::testing::ContainsRegex("no checkpoint is written at step [0-9]+: .*No space left on device"));
  EXPECT_THAT(full.errors, HasSubstr("; the last one is '"));
  const int64_t step = small.newest_step("disk/run");
  EXPECT_GT(step, 0);
  EXPECT_FALSE(fs::exists(small.in("disk/run/checkpoints/.begun")));
  // On a disk with room the run goes on.
  fs::copy(small.in("disk/run"), small.in("run"), fs::copy_options::recursive);
  const Outcome rest = run_program(small.resume("run", fmt::format("--epochs {}", step / SmallRun::kEpochSteps + 1)));
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.output, HasSubstr(fmt::format(": {} steps done", step)));
  EXPECT_EQ(rest.errors.find("is passed over"), std::string::npos);
}

// The space of a scratch file is taken before the first step. Where a disk is full all the same, as one that is mounted
// over a network may be, the write of a step fails: calls are made to fail here, since a small disk in memory is
// refused.
TEST(KilledRuns, ADiskThatIsFullDuringASpillKeepsTheCheckpoint) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const SmallRun small;
  const std::string net = fmt::format("--layers 12 --width 256 --epochs 4 --scratch {} ", small.in("."));
  const Outcome refused = run_program(small.command("refused", net + "--memory 1MiB --no-remedies --json"));
  ASSERT_EQ(refused.exit_code, 3) << refused.errors;
  const auto line = nlohmann::json::parse(refused.output).value("smallest_line_bytes", int64_t{0}) + 2'000'000;
  const std::string flags = fmt::format("{} --memory {} ", net, line);
  const auto run_with = [&](const std::string& setting, const std::string& run, const std::string& more) {
    return run_program(small.command(run, flags + more),
                       fmt::format("env LD_PRELOAD={} {}", PLIMSOLL_FAIL_CALLS, setting));
  };
  const Outcome whole =
      run_with("PLIMSOLL_FAIL_COUNTS=" + small.in("counts"), "whole", "--save " + small.in("whole.st"));
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  ASSERT_THAT(whole.output, HasSubstr("streams"));
  std::ifstream lines(small.in("counts"));
  std::string call;
  int64_t count = 0, writes = 0;
  while (lines >> call >> count)
    if (call == "write") writes = count;
  ASSERT_GT(writes, 500) << "most of them are those of steps";

  int in_steps = 0;
  for (const int64_t percent : {40, 57, 80}) {
    const std::string run = fmt::format("run{}", percent);
    const Outcome full = run_with(fmt::format("PLIMSOLL_FAIL=write:{}:ENOSPC:on", percent * writes / 100), run, "");
    EXPECT_EQ(full.exit_code, 5) << full.output << full.errors;
    EXPECT_THAT(full.errors, HasSubstr("No space left on device"));
    in_steps += full.errors.find("of the scratch file failed") != std::string::npos;
    const int64_t step = small.newest_step(run);
    EXPECT_GT(step, 0);
    const Outcome rest = run_program(small.resume(run, "--save " + small.in("rest.st")));
    ASSERT_EQ(rest.exit_code, 0) << rest.errors;
    EXPECT_THAT(rest.output, HasSubstr(fmt::format(": {} steps done", step)));
    EXPECT_TRUE(SmallRun::content(small.in("rest.st")) == SmallRun::content(small.in("whole.st"))) << percent;
  }
  EXPECT_GT(in_steps, 0) << "all of them hit checkpoints";
}

}  // namespace
}  // namespace plimsoll::testing
