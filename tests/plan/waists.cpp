#include "plan/search/waists.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "plan/planned.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;
using testing::must_plan;
using testing::smallest_line;
using testing::sweep;

constexpr Bytes kUnit = 4096;

// Blocks of a wide value inside and a narrow sum at the end; backward needs all of them. With `is_dead` the sum of a
// block is not needed by backward, so at the loss it is gone.
Problem blocks(int count, bool is_dead = false) {
  Builder b;
  BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, kUnit);
  std::vector<std::vector<BufferId>> kept;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    const BufferId wide = b.temporary("wide" + n, 8 * kUnit), narrow = b.temporary("narrow" + n, 2 * kUnit),
                   sum = b.temporary("sum" + n, kUnit);
    b.task("widen" + n, {x}, {wide}).recomputable = true;
    b.task("narrow" + n, {wide}, {narrow}).recomputable = true;
    b.task("add" + n, {x, narrow}, {sum}).recomputable = true;
    kept.push_back(is_dead ? std::vector{wide, narrow} : std::vector{wide, narrow, sum});
    x = sum;
  }
  BufferId dy = b.temporary("d_top", 64);
  b.task("loss", {x}, {dy});
  for (int i = count - 1; i >= 0; --i) {
    const BufferId dx = b.temporary("d" + std::to_string(i), 64);
    std::vector<BufferId> reads = kept[static_cast<size_t>(i)];
    reads.push_back(dy);
    b.task("back" + std::to_string(i), reads, {dx});
    dy = dx;
  }
  return b.problem;
}

struct Subject {
  Problem problem;
  Sizes sizes = measure(problem, 1, 1);
  Drops drops = make();
  int32_t peak = static_cast<int32_t>(
      std::find_if(problem.tasks.begin(), problem.tasks.end(), [](const Task& task) { return task.name == "loss"; }) -
      problem.tasks.begin());
  std::vector<Gap> gaps = list();

  Drops make() const {
    std::vector<TaskId> order(problem.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    return {problem, sizes, order, true, 1};
  }
  std::vector<Gap> list() const {
    std::vector<Gap> found;
    for (BufferId id = 0; id < drops.buffers(); ++id) {
      const std::vector<Need>& needs = drops.needs(id);
      for (size_t i = 1; drops.is_remakeable(id) && i < needs.size(); ++i)
        if (needs[i - 1].stage < peak && needs[i].stage > peak)
          found.push_back({id, needs[i - 1].stage, needs[i].stage});
    }
    std::sort(found.begin(), found.end(),
              [&](const Gap& a, const Gap& b) { return drops.maker_of(a.id) < drops.maker_of(b.id); });
    return found;
  }
  std::vector<std::string> names() const {  // of what is made right behind each waist
    std::vector<std::string> found;
    for (const size_t at : find_waists(drops, gaps, peak))
      found.push_back(at == gaps.size() ? "end" : problem.buffers[static_cast<size_t>(gaps[at].id)].name);
    return found;
  }
};

TEST(Waists, LieBetweenBlocks) {
  EXPECT_EQ(Subject{blocks(3)}.names(), (std::vector<std::string>{"wide0", "wide1", "wide2", "end"}));
}

TEST(Waists, NotWhereAValueCrossesThatIsGoneAtThePeak) {
  EXPECT_EQ(Subject{blocks(3, true)}.names(), (std::vector<std::string>{"wide0", "narrow0", "end"}))
      << "the first block starts with an input, which is there";
}

TEST(Waists, WhatCrossesIsTheSum) {
  const Subject subject{blocks(3)};
  const std::vector<size_t> waists = find_waists(subject.drops, subject.gaps, subject.peak);
  ASSERT_EQ(waists.size(), 4u);
  for (size_t i = 0; i < waists[1]; ++i) {
    const Gap& gap = subject.gaps[i];
    EXPECT_EQ(crosses(subject.drops, subject.gaps, gap, waists[1]),
              subject.problem.buffers[static_cast<size_t>(gap.id)].name == "sum0");
    EXPECT_FALSE(crosses(subject.drops, subject.gaps, gap, subject.gaps.size())) << "nothing comes behind the end";
  }
}

TEST(Waists, LongProblemsRunEveryTaskAgainAtMostOnce) {
  // Large enough for the search that looks for waists first.
  const Problem problem = blocks(400);
  const Plan plain = must_plan(problem, {});
  const Plan plan = must_plan(problem, {.bytes = plain.arena_bytes / 5});
  EXPECT_LE(plan.actions.size(), problem.tasks.size() + 3 * 400);
  EXPECT_GE(plan.arena_bytes, plain.arena_bytes / 5 * 95 / 100) << "bytes that are left are used";
  sweep(blocks(12), {}, 6);
}

}  // namespace
}  // namespace plimsoll::plan
