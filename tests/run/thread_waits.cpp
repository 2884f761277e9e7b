// Threads wait for each other spinning on an idle machine and asleep on a busy one.
#include "run/thread_waits.h"

#include <omp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/thread_pool.h"

namespace plimsoll::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kSecond = 1'000'000'000;

// Processes that compute until the scope is left.
class OtherProcesses {
 public:
  explicit OtherProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      if (child == 0)
        for (;;) asm volatile("");
      children_.push_back(child);
    }
  }
  OtherProcesses(const OtherProcesses&) = delete;
  OtherProcesses& operator=(const OtherProcesses&) = delete;
  ~OtherProcesses() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

int64_t times_slept() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

// Regions in which one thread computes while the others wait for it.
void run_uneven_regions(int count) {
  for (int i = 0; i < count; ++i) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0)
      for (const auto end = Clock::now() + milliseconds(1); Clock::now() < end;) {
      }
  }
}

TEST(BusyJudge, OneLookSaysNothing) {
  BusyJudge judge;
  EXPECT_FALSE(judge.update(kSecond, kSecond));
}

TEST(BusyJudge, IsBusyWhenThreadsWaitAndIdleOnlyWhenTheyHardlyDo) {
  BusyJudge judge;
  EXPECT_FALSE(judge.update(0, 0));
  EXPECT_FALSE(judge.update(kSecond / 25, kSecond));           // 4 % of a second
  EXPECT_FALSE(judge.update(kSecond / 5, 2 * kSecond));        // 16 %: not enough to begin with
  EXPECT_TRUE(judge.update(kSecond, 3 * kSecond));             // 80 %
  EXPECT_TRUE(judge.update(6 * kSecond / 5, 4 * kSecond));     // 20 %: not little enough to end with
  EXPECT_FALSE(judge.update(25 * kSecond / 20, 5 * kSecond));  // 5 %
}

TEST(BusyJudge, ThreadsThatEndTakeTheirTimeWithThem) {
  BusyJudge judge;
  judge.update(8 * kSecond, kSecond);
  EXPECT_FALSE(judge.update(kSecond, 2 * kSecond));
  EXPECT_TRUE(judge.update(2 * kSecond, 3 * kSecond));
}

TEST(ThreadWaits, TimeWithoutAProcessorIsThatOfAllThreads) {
  const int64_t before = waited_for_processors_ns();
  if (before < 0) GTEST_SKIP() << "this kernel does not say how long threads wait for a processor";
  const int threads = 4 * omp_get_num_procs();
  std::vector<std::jthread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
      }
    });
  std::this_thread::sleep_for(milliseconds(300));
  // A quarter of the threads has a processor; the others wait 0.3 s each, give or take who else wants one.
  EXPECT_GT(waited_for_processors_ns() - before, int64_t{threads} / 4 * 300'000'000);
}

TEST(ThreadWaits, ThreadsSleepBesideProcessesThatCompute) {
  if (waited_for_processors_ns() < 0) GTEST_SKIP() << "this kernel does not say how long threads wait for a processor";
  if (omp_get_max_threads() < 2) GTEST_SKIP() << "there is one thread, which waits for nobody";
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
    GTEST_SKIP() << "OMP_WAIT_POLICY or GOMP_SPINCOUNT says how threads wait";
  start_pool();
  {
    const OtherProcesses others(2 * omp_get_num_procs());
    for (const auto end = Clock::now() + std::chrono::seconds(20); !threads_sleep_soon() && Clock::now() < end;) {
      look_at_processors();
      run_uneven_regions(5);
    }
    EXPECT_TRUE(threads_sleep_soon());
    std::this_thread::sleep_for(milliseconds(100));  // the spare threads begin
  }
  constexpr int kRegions = 50;
  const int64_t before = times_slept();
  run_uneven_regions(kRegions);
  EXPECT_GE(times_slept() - before, kRegions);
}

}  // namespace
}  // namespace plimsoll::run
