// Ranks on several hosts, which talk over TCP: network namespaces joined by a switch, with links that are slow or lose
// packets.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/hosts.h"
#include "support/program.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

class RanksOnHosts : public ::testing::Test {
 protected:
  std::string words(const std::string& name, const std::string& more) const {
    return fmt::format(
        "train mlp --image-size 4 --channels 1 --classes 3 --width 64 --batch 8 --shards 4 --threads 1 --steps 8 "
        "--progress none --json --data {} --val {} --save {} {}",
        small.in("train.csv"), small.in("test.csv"), small.in(name), more);
  }
  // Weights and the optimiser's state, as bytes of a file.
  std::string of_one_process() const {
    const Outcome outcome = run_program(words("one", ""));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return SmallRun::content(small.in("one"));
  }
  Outcome run_on(const Hosts& hosts, const std::string& name) const {
    Outcome outcome = run_program(words(name, "--rank-timeout 60"), hosts.mpirun());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome;
  }

  const SmallRun small;
};

TEST_F(RanksOnHosts, HaveTheBitsOfOneProcess) {
  for (const int count : {2, 4}) {
    const Hosts hosts(count, small.in(""));
    if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
    const Outcome outcome = run_on(hosts, "several");
    EXPECT_TRUE(SmallRun::content(small.in("several")) == of_one_process()) << count << " hosts";
    EXPECT_EQ(outcome.event("end")["exchanges"]["ranks"], count);
    EXPECT_GT(outcome.event("end")["exchanges"]["sent_bytes_a_step"], 0);
  }
}

TEST_F(RanksOnHosts, PlanWithTheSpeedOfTheirNetwork) {
  Hosts hosts(2, small.in(""));
  if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
  const Outcome fast = run_on(hosts, "fast");
  if (!hosts.limit_link(1, "20mbit", 1 << 20)) GTEST_SKIP() << "this kernel has no tbf, which makes a link slow";
  const Outcome slow = run_on(hosts, "slow");
  const auto predicted = [](const Outcome& outcome) { return outcome.event("plan").value("network_ns", 0.0); };
  ASSERT_GT(predicted(fast), 0);
  EXPECT_GT(predicted(slow), 2 * predicted(fast)) << "20 Mb/s instead of the memory of one machine";
  // 5,000 weights of a rank take milliseconds at that speed, whatever else this machine does.
  const double bytes = slow.event("end")["exchanges"]["sent_bytes_a_step"];
  EXPECT_GT(predicted(slow), 0.5 * bytes / 2.5e6 * 1e9) << "no faster than the link";
  EXPECT_GT(slow.event("end")["exchanges"]["exchange_ns_a_step"], 0.5 * bytes / 2.5e6 * 1e9);
  EXPECT_TRUE(SmallRun::content(small.in("slow")) == SmallRun::content(small.in("fast")));
  EXPECT_TRUE(SmallRun::content(small.in("slow")) == of_one_process());
}

// A queue of twenty packets: TCP learns the speed of the link from what is lost.
TEST_F(RanksOnHosts, LosePacketsAndNoBits) {
  Hosts hosts(2, small.in(""));
  if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
  if (!hosts.limit_link(1, "400mbit", 30'000))
    GTEST_SKIP() << "this kernel has no tbf, which makes a link lose packets";
  run_on(hosts, "lossy");
  EXPECT_GT(hosts.dropped(1), 0) << "the link loses packets";
  EXPECT_TRUE(SmallRun::content(small.in("lossy")) == of_one_process());
}

}  // namespace
}  // namespace plimsoll::testing
