// Exchanges move up to where the value that they send is ready; all other tasks keep their order.
#include "plan/search/send_early.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/check/exchanges.h"
#include "plan/limits.h"
#include "plan/make_plan.h"

namespace plimsoll::plan {
namespace {

using ::testing::ElementsAre;

Buffer variable(const char* name) {
  Buffer buffer;
  buffer.name = name;
  buffer.kind = BufferKind::Variable;
  buffer.fixed_bytes = 64;
  return buffer;
}

Task task(const char* name, std::vector<BufferId> reads, std::vector<BufferId> writes, std::vector<BufferId> updates,
          Lane lane = Lane::Compute) {
  Task made;
  made.name = name;
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  made.updates = std::move(updates);
  made.lane = lane;
  made.fixed_ns = 1000;
  return made;
}

// Two gradients, each added to its sum; then both sums are exchanged with one buffer, and two updates.
Problem two_gradients() {
  Problem problem;
  problem.name = "two";
  for (const char* name : {"sum1", "sum2", "received", "w1", "w2"}) problem.buffers.push_back(variable(name));
  for (const char* name : {"g1", "g2"}) {
    Buffer gradient;
    gradient.name = name;
    gradient.fixed_bytes = 64;
    problem.buffers.push_back(gradient);
  }
  problem.tasks = {task("make1", {3}, {5}, {}),
                   task("add1", {5}, {}, {0}),
                   task("make2", {4}, {6}, {}),
                   task("add2", {6}, {}, {1}),
                   task("send1", {}, {}, {0, 2}, Lane::Network),
                   task("send2", {}, {}, {1, 2}, Lane::Network),
                   task("update1", {0}, {}, {3}),
                   task("update2", {1}, {}, {4})};
  return problem;
}

TEST(SendEarly, MovesAnExchangeBehindWhatItSends) {
  const Problem problem = two_gradients();
  std::vector<TaskId> order{0, 1, 2, 3, 4, 5, 6, 7};
  send_early(problem, order);
  EXPECT_THAT(order, ElementsAre(0, 1, 4, 2, 3, 5, 6, 7));
}

TEST(SendEarly, TakesAlongWhatHoldsNothing) {
  Problem problem = two_gradients();
  // A carry between the sum and its exchange.
  problem.buffers.push_back(variable("level"));
  problem.tasks.insert(problem.tasks.begin() + 4, task("carry1", {7}, {}, {0}));
  std::vector<TaskId> order{0, 1, 2, 3, 4, 5, 6, 7, 8};
  send_early(problem, order);
  EXPECT_THAT(order, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7, 8));
}

TEST(SendEarly, KeepsTheOrderOfExchangesAndOfProblemsWithoutAny) {
  Problem problem = two_gradients();
  std::vector<TaskId> late{2, 3, 0, 1, 4, 5, 6, 7};  // the second gradient first
  send_early(problem, late);
  EXPECT_THAT(late, ElementsAre(2, 3, 0, 1, 4, 5, 6, 7)) << "the buffer orders them";
  for (Task& one : problem.tasks) one.lane = Lane::Compute;
  std::vector<TaskId> order{0, 1, 2, 3, 4, 5, 6, 7};
  send_early(problem, order);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(SendEarly, PlansListTheirExchangesInOrderAndOverlapThem) {
  const Problem problem = two_gradients();
  Limits limits;
  limits.bytes = 1 << 20;
  const auto made = make_plan(problem, limits);
  ASSERT_TRUE(std::holds_alternative<Plan>(made));
  const Plan& plan = std::get<Plan>(made);
  EXPECT_EQ(list_exchanges(problem, plan), "send1 128\nsend2 128\n");
  EXPECT_LT(plan.predicted_ns, 8000) << "lanes run beside each other";
}

}  // namespace
}  // namespace plimsoll::plan
