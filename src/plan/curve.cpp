#include "plan/curve.h"

#include <algorithm>

#include "plan/make_plan.h"

namespace plimsoll {
namespace {

CurvePoint describe(const Problem& problem, const Plan& plan, Bytes limit) {
  CurvePoint point;
  point.limit_bytes = limit;
  point.arena_bytes = plan.arena_bytes;
  point.predicted_ns = plan.predicted_ns;
  point.parts = std::max<int64_t>(1, static_cast<int64_t>(plan.part_samples.size()));
  for (const Step& step : plan.steps) {
    point.reruns += step.kind == Step::Kind::Run ? 1 : 0;
    point.saves += step.kind == Step::Kind::Save ? 1 : 0;
  }
  point.reruns -= static_cast<int64_t>(problem.tasks.size()) * point.parts;
  return point;
}

}  // namespace

std::vector<CurvePoint> make_curve(const Problem& problem, const Limits& limits, int points) {
  const auto plan_at = [&](Bytes bytes) {
    Limits here = limits;
    here.bytes = bytes;
    return make_plan(problem, here);
  };
  const Bytes largest = std::get<Plan>(plan_at(std::numeric_limits<Bytes>::max())).arena_bytes;
  Bytes smallest = largest;
  if (const auto answer = plan_at(0); const auto* shortfall = std::get_if<Shortfall>(&answer))
    smallest = shortfall->need_bytes;
  std::vector<CurvePoint> curve;
  const int last = largest > smallest ? std::max(1, points - 1) : 0;
  for (int i = 0; i <= last; ++i) {
    const Bytes limit =
        last == 0 ? largest
                  : smallest + (largest - smallest) / last * i + (i == last ? (largest - smallest) % last : 0);
    const auto answer = plan_at(limit);
    if (const auto* plan = std::get_if<Plan>(&answer)) curve.push_back(describe(problem, *plan, limit));
  }
  return curve;
}

}  // namespace plimsoll
