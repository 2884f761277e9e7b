#include "plan/search/relief.h"

#include <cmath>

#include <gtest/gtest.h>

#include "plan/exhaustive.h"
#include "plan/problems.h"

namespace plimsoll::plan {
namespace {

using testing::Builder;

Relief make_relief(const Problem& problem, const Sizes& sizes, bool in_place) {
  std::vector<double> ns;
  for (const Task& task : problem.tasks) ns.push_back(task.fixed_ns);
  return {problem, sizes, ns, in_place};
}

TEST(Relief, TakesTheCheapestForItsBytes) {
  Builder b;
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 64);
  const BufferId cheap = b.temporary("cheap", 1024), dear = b.temporary("dear", 1024), kept = b.temporary("kept", 1024);
  for (const auto& [name, id, ns] : {std::tuple("cheap", cheap, 100.0), {"dear", dear, 500.0}, {"kept", kept, 1.0}}) {
    Task& task = b.task(name, {x}, {id});
    task.recomputable = id != kept;
    task.fixed_ns = ns;
  }
  const BufferId middle = b.temporary("middle", 64), end = b.buffer("end", BufferKind::Output, Tag::Activations, 64);
  b.task("middle", {x}, {middle});
  b.task("end", {cheap, dear, kept, middle}, {end});
  const Relief relief = make_relief(b.problem, measure(b.problem, 1, 1), true);
  const Bytes all = 3 * 1024 + 2 * 64;
  EXPECT_EQ(relief.least_ns(all), 0);
  EXPECT_EQ(relief.least_ns(all - 512), 50) << "half of what is cheap";
  EXPECT_EQ(relief.least_ns(all - 1024), 100);
  EXPECT_EQ(relief.least_ns(all - 1536), 350);
  EXPECT_EQ(relief.least_ns(0), 600) << "what is kept does not come back";
}

TEST(Relief, IsNeverAboveTheOptimum) {
  int helpful = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const bool in_place = seed % 2 == 0;
    const Problem problem = testing::small_problem(seed, 7, in_place);
    Levers levers;
    levers.order = false;
    levers.in_place = in_place;
    const testing::Exhaustive optimum(problem, levers);
    const Sizes sizes = measure(problem, 1, 1);
    const Relief relief = make_relief(problem, sizes, in_place);
    double once = 0;
    for (const Task& task : problem.tasks) once += task.fixed_ns;
    const Bytes lowest = optimum.smallest_line();
    for (Bytes line = lowest; std::isfinite(optimum.least_ns(line)); line += 128) {
      const double least = optimum.least_ns(line) - once;
      EXPECT_LE(relief.least_ns(line), least) << "seed " << seed << ", line " << line;
      helpful += relief.least_ns(line) > 0 ? 1 : 0;
      if (least == 0) break;
    }
  }
  EXPECT_GT(helpful, 100) << "a bound that is mostly nothing proves nothing";
}

}  // namespace
}  // namespace plimsoll::plan
