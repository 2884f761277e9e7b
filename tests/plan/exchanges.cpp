// Exchanges of neighbouring ranks meet in the same order with the same sizes; faults are named.
#include "plan/check/exchanges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/planned.h"
#include "plan/problems.h"
#include "plan/text/text.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using ::testing::HasSubstr;
using testing::must_plan;

using Lists = std::vector<std::string>;

// Two micro-batches through three ranks, one forward and one backward at a time.
Lists three_ranks() {
  return {
      "peer 1 sends 64 receives 0 f0\npeer 1 sends 64 receives 0 f1\npeer 1 sends 0 receives 64 b0\n"
      "peer 1 sends 0 receives 64 b1\n",
      "peer 0 sends 0 receives 64 f0\npeer 2 sends 128,4 receives 0 g0\npeer 0 sends 0 receives 64 f1\n"
      "peer 2 sends 128,4 receives 128 g1\npeer 0 sends 64 receives 0 b0\npeer 2 sends 0 receives 128 g2\n"
      "peer 0 sends 64 receives 0 b1\n",
      "peer 1 sends 0 receives 128,4 g0\npeer 1 sends 128 receives 128,4 g1\npeer 1 sends 128 receives 0 g2\n"};
}

TEST(Exchanges, OfNeighboursMeet) {
  EXPECT_EQ(find_unmatched(three_ranks()), "");
  EXPECT_EQ(find_unmatched(Lists{"sum 12\n\nsum 12\n", "sum 12\nsum 12\n"}), "") << "those of all ranks as well";
  EXPECT_EQ(find_unmatched(Lists{"", ""}), "");
}

TEST(Exchanges, OfOtherSizesAreNamed) {
  Lists lists = three_ranks();
  lists[2].replace(lists[2].find("128,4"), 5, "128,8");
  EXPECT_EQ(find_unmatched(lists),
            "exchange 1 of rank 1 (sends 128,4 and receives 0 bytes in 'g0') meets none: exchange 0 of rank 2 sends 0 "
            "and receives 128,8 bytes in 'g0' with rank 1");
}

TEST(Exchanges, InAnotherOrderWaitForEver) {
  // Both send first: neither receives.
  const Lists lists{"peer 1 sends 64 receives 0 forward\npeer 1 sends 0 receives 64 back\n",
                    "peer 0 sends 64 receives 0 back\npeer 0 sends 0 receives 64 forward\n"};
  EXPECT_EQ(find_unmatched(lists),
            "exchange 0 of rank 0 (sends 64 and receives 0 bytes in 'forward') meets none: exchange 0 of rank 1 sends "
            "64 and receives 0 bytes in 'back' with rank 0");
}

TEST(Exchanges, InARingWaitForEver) {
  const Lists lists{"peer 1 sends 8 receives 8 a\npeer 2 sends 8 receives 8 c\n",
                    "peer 2 sends 8 receives 8 b\npeer 0 sends 8 receives 8 a\n",
                    "peer 0 sends 8 receives 8 c\npeer 1 sends 8 receives 8 b\n"};
  EXPECT_THAT(find_unmatched(lists), HasSubstr("exchange 0 of rank 0"));
}

TEST(Exchanges, ThatNobodyAnswersAreNamed) {
  Lists lists = three_ranks();
  lists[0].resize(lists[0].rfind("peer"));
  EXPECT_THAT(find_unmatched(lists), HasSubstr("meets none: rank 0 has no more"));
  EXPECT_THAT(find_unmatched(Lists{"peer 5 sends 8 receives 0 lost\n"}), HasSubstr("there is no rank 5"));
  EXPECT_THAT(find_unmatched(Lists{"peer 0 sends 8 receives 8 self\n"}), HasSubstr("exchange 0 of rank 0"));
  EXPECT_THAT(find_unmatched(Lists{"sum 12\n", "sum 16\n"}), HasSubstr("adds up 'sum 12' with all ranks) meets none"));
}

TEST(Exchanges, AreListedFromThePlan) {
  Builder b;
  const BufferId turn = b.variable("turn", 64), x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId h = b.temporary("h", 128), g = b.temporary("g", 192);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 64);
  b.task("forward", {x}, {h});
  Task& swap = b.task("swap", {h}, {g}, {turn});
  swap.lane = Lane::Network;
  swap.peer = 3;
  b.task("backward", {g}, {y});
  const Plan plan = must_plan(b.problem, {});
  EXPECT_EQ(list_exchanges(b.problem, plan), "peer 3 sends 128 receives 192 swap\n");
  EXPECT_EQ(parse_problem(to_text(b.problem)), b.problem) << "the peer is in the text form";
}

}  // namespace
}  // namespace plimsoll::plan
