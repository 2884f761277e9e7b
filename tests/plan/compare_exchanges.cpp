// What ranks exchange is compared: planted faults are named, whatever else the plans differ in.
#include "plan/check/compare_exchanges.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "plan/check/exchanges.h"
#include "plan/limits.h"
#include "plan/make_plan.h"

namespace plimsoll::plan {
namespace {

// A weight's gradient is made, summed over ranks with others, and used, for each of three layers.
Problem three_layers() {
  Problem problem;
  problem.name = "three";
  const auto add = [&](const std::string& name, BufferKind kind, Bytes bytes) {
    Buffer buffer;
    buffer.name = name;
    buffer.kind = kind;
    buffer.fixed_bytes = bytes;
    problem.buffers.push_back(buffer);
    return static_cast<BufferId>(problem.buffers.size() - 1);
  };
  const BufferId received = add("received", BufferKind::Variable, 256);
  for (int layer = 0; layer < 3; ++layer) {
    const auto name = [&](const char* what) { return what + std::to_string(layer); };
    const BufferId weight = add(name("w"), BufferKind::Variable, 64 << layer);
    const BufferId sum = add(name("sum"), BufferKind::Variable, 64 << layer);
    const BufferId gradient = add(name("g"), BufferKind::Temporary, 64 << layer);
    const auto add_task = [&](const std::string& task, Lane lane) -> Task& {
      problem.tasks.emplace_back();
      problem.tasks.back().name = task;
      problem.tasks.back().lane = lane;
      problem.tasks.back().fixed_ns = 1000;
      return problem.tasks.back();
    };
    Task& make = add_task(name("make"), Lane::Compute);
    make.reads = {weight};
    make.writes = {gradient};
    Task& join = add_task(name("join"), Lane::Compute);
    join.reads = {gradient};
    join.updates = {sum};
    add_task(name("exchange"), Lane::Network).updates = {sum, received};
    Task& update = add_task(name("update"), Lane::Compute);
    update.reads = {sum};
    update.updates = {weight};
  }
  return problem;
}

std::string list_of(const Problem& problem) {
  const auto answer = make_plan(problem, {});
  return list_exchanges(problem, std::get<Plan>(answer));
}

std::string fault(const std::string& own) {
  const std::vector<std::string> lists{list_of(three_layers()), list_of(three_layers()), own};
  return compare_exchanges(lists);
}

TEST(CompareExchanges, OfEqualPlansMatch) {
  EXPECT_EQ(fault(list_of(three_layers())), "");
  EXPECT_EQ(compare_exchanges(std::vector<std::string>{list_of(three_layers())}), "") << "alone";
  EXPECT_EQ(compare_exchanges({}), "");
  Problem slower = three_layers();
  for (Task& task : slower.tasks)
    if (task.lane == Lane::Compute) task.fixed_ns *= 10;
  EXPECT_EQ(fault(list_of(slower)), "") << "ranks may differ in all that nobody waits for";
}

TEST(CompareExchanges, OfAnotherSizeAreNamed) {
  Problem problem = three_layers();
  for (Buffer& buffer : problem.buffers)
    if (buffer.name == "sum1" || buffer.name == "g1") buffer.fixed_bytes += 64;
  EXPECT_EQ(fault(list_of(problem)),
            "exchange 2 of rank 2 is 'exchange1' of 448 bytes, that of rank 0 is 'exchange1' of 384 bytes");
}

TEST(CompareExchanges, InAnotherOrderAreNamed) {
  Problem problem = three_layers();
  std::rotate(problem.tasks.begin(), problem.tasks.begin() + 4, problem.tasks.begin() + 8);
  EXPECT_EQ(fault(list_of(problem)),
            "exchange 1 of rank 2 is 'exchange1' of 384 bytes, that of rank 0 is 'exchange0' of 320 bytes");
}

TEST(CompareExchanges, ThatAreMissingOrTooManyAreNamed) {
  Problem shorter = three_layers();
  shorter.tasks.resize(shorter.tasks.size() - 4);
  EXPECT_EQ(fault(list_of(shorter)), "exchange 3 of rank 2 is none, that of rank 0 is 'exchange2' of 512 bytes");
  Problem longer = three_layers();
  longer.tasks.push_back(longer.tasks[2]);
  longer.tasks.back().name = "again";
  EXPECT_EQ(fault(list_of(longer)), "exchange 4 of rank 2 is 'again' of 320 bytes, that of rank 0 is none");
  EXPECT_EQ(fault(""), "exchange 1 of rank 2 is none, that of rank 0 is 'exchange0' of 320 bytes");
}

TEST(CompareExchanges, OnAnotherLaneAreNamed) {
  Problem problem = three_layers();
  problem.tasks[2].lane = Lane::Compute;
  EXPECT_EQ(fault(list_of(problem)),
            "exchange 1 of rank 2 is 'exchange1' of 384 bytes, that of rank 0 is 'exchange0' of 320 bytes");
}

}  // namespace
}  // namespace plimsoll::plan
