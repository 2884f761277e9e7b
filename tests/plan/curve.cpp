#include "plan/curve.h"

#include <gtest/gtest.h>

namespace plimsoll::plan {
namespace {

// Forward makes a value for each layer, backward reads them in reverse.
Problem chain(int layers) {
  Problem problem;
  problem.buffers.push_back({"x", Tag::Data, BufferKind::Input, 64, 0});
  std::vector<BufferId> values{0};
  const auto add = [&](const std::string& name, std::vector<BufferId> reads, BufferKind kind) {
    problem.buffers.push_back({name, Tag::Activations, kind, 6400, 0});
    Task task;
    task.name = name;
    task.reads = std::move(reads);
    task.writes = {static_cast<BufferId>(problem.buffers.size()) - 1};
    task.fixed_ns = 100;
    task.recomputable = true;
    problem.tasks.push_back(task);
    return task.writes[0];
  };
  for (int i = 0; i < layers; ++i)
    values.push_back(add("f" + std::to_string(i), {values.back()}, BufferKind::Temporary));
  BufferId gradient = values.back();
  for (int i = layers - 1; i >= 0; --i)
    gradient = add("b" + std::to_string(i), {gradient, values[static_cast<size_t>(i)]},
                   i == 0 ? BufferKind::Output : BufferKind::Temporary);
  return problem;
}

TEST(Curve, GoesFromTheSmallestLineToTheFastestPlanAndNeverBack) {
  const Problem problem = chain(16);
  const std::vector<CurvePoint> curve = make_curve(problem, Limits{}, 20);
  ASSERT_FALSE(curve.empty());
  EXPECT_LE(curve.size(), 20U);
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_LE(curve[i].arena_bytes, curve[i].limit_bytes);
    if (i == 0) continue;
    EXPECT_GE(curve[i].limit_bytes, curve[i - 1].limit_bytes);
    EXPECT_LE(curve[i].predicted_ns, curve[i - 1].predicted_ns);
  }
  EXPECT_EQ(curve.back().reruns, 0);
  EXPECT_EQ(curve.back().predicted_ns, 3200);
}

TEST(Curve, OfAProblemWithoutChoiceIsOnePoint) {
  Levers none;
  none.recompute = none.micro_batch = none.spill = false;
  Limits limits;
  limits.levers = none;
  EXPECT_EQ(make_curve(chain(3), limits, 20).size(), 1U);
}

}  // namespace
}  // namespace plimsoll::plan
