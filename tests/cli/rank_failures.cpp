// Ranks that are killed, hang or are asked to stop while they train: all end, and what was learned stays.
#include <sys/mount.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "support/rank_run.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class RankFailures : public ::testing::Test {
 protected:
  std::string command(const std::string& run, const std::string& more) const {
    return small.command(run, "--ranks 4 --shards 4 --epochs 100000 --checkpoint-every 20 " + more);
  }
  // Until it has written a checkpoint: all ranks train then.
  bool wait_for_checkpoint(const std::string& run, size_t least = 1) const {
    return RankRun::wait_until([&] { return small.checkpoints(run).size() >= least; });
  }
  static void expect_nobody(const RankRun& run) {
    EXPECT_TRUE(RankRun::wait_until([&] { return run.ranks().empty(); })) << "a rank is left";
  }
  static double seconds_of_four_processes() {
    const auto begin = RankRun::Clock::now();
    EXPECT_EQ(std::system("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 4 true"),
              0);
    return std::chrono::duration<double>(RankRun::Clock::now() - begin).count();
  }
  // The weights file of an undisturbed training.
  std::string undisturbed(int64_t steps) const {
    const Outcome outcome = run_program(fmt::format("{} --shards 4 --epochs 100000 --steps {} --save {}",
                                                    small.command("undisturbed", ""), steps, small.in("whole")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return SmallRun::content(small.in("whole"));
  }

  const SmallRun small;
};

TEST_F(RankFailures, AKilledRankEndsAllAndIsNamed) {
  RankRun run(command("run", ""), small.in("run"));
  ASSERT_TRUE(wait_for_checkpoint("run"));
  ASSERT_EQ(run.ranks().size(), 4U);
  run.send(2, SIGKILL);
  const Outcome& outcome = run.wait();
  EXPECT_EQ(outcome.exit_code, 7) << outcome.errors;
  EXPECT_THAT(outcome.errors,
              MatchesRegex("plimsoll: rank 2 on .* was killed by signal 9 \\(Killed\\); all ranks were ended\n"));
  // Two seconds, and what this machine takes at the moment to start and end as many processes that do nothing.
  EXPECT_LT(run.seconds_to_end(), 2 + seconds_of_four_processes());
  expect_nobody(run);
  const int64_t steps = small.newest_step("run") + 30;
  const Outcome rest = run_program(small.resume("run", fmt::format("--steps {} --save {}", steps, small.in("rest"))));
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_EQ(SmallRun::content(small.in("rest")), undisturbed(steps)) << "one rank goes on where four were";
}

TEST_F(RankFailures, TwentyKillsLeaveACheckpointThatGoesOn) {
  std::mt19937 random(7);
  for (int kill = 0; kill < 20; ++kill) {
    const std::string more = kill == 0 ? "" : "--resume";
    RankRun run(command("run", more), small.in("run"));
    ASSERT_TRUE(RankRun::wait_until([&] { return run.ranks().size() == 4; }));
    ASSERT_TRUE(kill > 0 || wait_for_checkpoint("run"));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
    run.send(static_cast<int>(random() % 4), SIGKILL);
    const Outcome& outcome = run.wait();
    EXPECT_EQ(outcome.exit_code, 7) << kill << ": " << outcome.errors;
    expect_nobody(run);
  }
  const int64_t steps = small.newest_step("run") + 10;
  const Outcome rest =
      run_program(small.resume("run", fmt::format("--ranks 2 --steps {} --save {}", steps, small.in("rest"))));
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_EQ(SmallRun::content(small.in("rest")), undisturbed(steps));
}

// The first rank writes checkpoints; the folder becomes full while all train.
TEST_F(RankFailures, ADiskThatIsFullOnOneRankEndsAll) {
  const std::string disk = small.in("disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=8m") != 0) GTEST_SKIP() << "this process may not mount a tmpfs";
  {
    RankRun run(command("disk/run", ""), small.in("disk/run"));
    if (wait_for_checkpoint("disk/run")) {
      std::ofstream filler(small.in("disk/filler"), std::ios::binary);
      const std::string block(64 * 1024, 'x');
      while (filler.write(block.data(), std::ssize(block)).flush()) {
      }
    }
    const Outcome& outcome = run.wait();
    EXPECT_EQ(outcome.exit_code, static_cast<int>(ErrorKind::DiskFull)) << outcome.errors;
    EXPECT_THAT(outcome.errors, StartsWith("plimsoll: no checkpoint is written at step "));
    EXPECT_THAT(outcome.errors, ContainsRegex("rank [0-3]: '[^\n]*/weights-[1-4]-of-4[^\n]*: No space left on device"));
    EXPECT_LE(std::ranges::count(outcome.errors, '\n'), 4) << "a line for each rank at most: " << outcome.errors;
    expect_nobody(run);
  }
  std::filesystem::remove(small.in("disk/filler"));
  const int64_t steps = small.newest_step("disk/run") + 10;
  const Outcome rest =
      run_program(small.resume("disk/run", fmt::format("--steps {} --save {}", steps, small.in("rest"))));
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_EQ(SmallRun::content(small.in("rest")), undisturbed(steps)) << "the last checkpoint is whole";
  ::umount2(disk.c_str(), MNT_DETACH);
}

TEST_F(RankFailures, ADiskThatIsTooSmallForOneRankStopsAllBeforeTheFirstStep) {
  const std::string prefix = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --quiet --oversubscribe";
  const std::string words = fmt::format(
      "train mlp --image-size 4 --channels 1 --classes 3 --width 8 --batch 8 --threads 1 --progress none "
      "--data {} --scratch {} --disk-limit",
      small.in("train.csv"), small.in(""));
  const Outcome outcome =
      run_program(words + " 900000GiB", fmt::format("{} -n 1 {} {} 2MiB : -n 1", prefix, PLIMSOLL_BINARY, words));
  EXPECT_EQ(outcome.exit_code, static_cast<int>(ErrorKind::DiskFull)) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("\nrank 1: '"));
  EXPECT_THAT(outcome.errors, HasSubstr("less than the disk limit of"));
}

TEST_F(RankFailures, ARankThatHangsIsNamedAfterTheDeadline) {
  RankRun run(command("run", "--rank-timeout 3"), small.in("run"));
  ASSERT_TRUE(wait_for_checkpoint("run"));
  run.send(1, SIGSTOP);
  const Outcome& outcome = run.wait();
  EXPECT_EQ(outcome.exit_code, 7) << outcome.errors;
  // In a step, or where all ranks agree that a checkpoint is whole.
  EXPECT_THAT(outcome.errors, HasSubstr(": rank 1 has not answered for 3 s; the others were ended"));
  expect_nobody(run);
}

TEST_F(RankFailures, RestartsGoOnFromTheLastCheckpoint) {
  RankRun run(command("run", fmt::format("--restarts 2 --steps 600 --save {}", small.in("several"))), small.in("run"));
  ASSERT_TRUE(wait_for_checkpoint("run"));
  run.send(3, SIGKILL);
  const Outcome& outcome = run.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("rank 3 on "));
  EXPECT_THAT(outcome.errors, HasSubstr("starting again from the last checkpoint\n"));
  EXPECT_EQ(SmallRun::content(small.in("several")), undisturbed(600));
  expect_nobody(run);
}

TEST_F(RankFailures, ASignalToOneRankStopsAllAfterTheSameStep) {
  RankRun run(command("run", ""), small.in("run"));
  ASSERT_TRUE(wait_for_checkpoint("run"));
  run.send(1, SIGUSR1);
  const Outcome& outcome = run.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("--resume"));
  const int64_t steps = small.newest_step("run") + 10;
  EXPECT_EQ(run_program(small.resume("run", fmt::format("--steps {} --save {}", steps, small.in("rest")))).exit_code,
            0);
  EXPECT_EQ(SmallRun::content(small.in("rest")), undisturbed(steps));
}

}  // namespace
}  // namespace plimsoll::testing
