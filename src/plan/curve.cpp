#include "plan/curve.h"

#include <algorithm>

#include "plan/make_plan.h"

namespace plimsoll::plan {
namespace {

CurvePoint describe(const Problem& problem, const Plan& plan, Bytes limit) {
  CurvePoint point;
  point.limit_bytes = limit;
  point.arena_bytes = plan.arena_bytes;
  point.predicted_ns = plan.predicted_ns;
  point.micro_batches = std::max<int64_t>(1, static_cast<int64_t>(plan.micro_batches.size()));
  const Tally tally = count_work(problem, plan);
  point.reruns = tally.reruns;
  point.variants = tally.variants;
  point.saves = tally.saves;
  return point;
}

}  // namespace

std::vector<CurvePoint> make_curve(const Problem& whole, std::span<const Problem* const> problems, const Limits& limits,
                                   int points) {
  LineSearch search(whole, problems, limits);
  const auto widest = std::get<Plan>(search.plan_at(std::numeric_limits<Bytes>::max()).answer);
  const Bytes largest = widest.arena_bytes + limits.bytes_of_actions(std::ssize(widest.actions));
  Bytes smallest = largest;
  const Choice refused = search.plan_at(0);
  if (const auto* shortfall = std::get_if<Shortfall>(&refused.answer)) smallest = shortfall->need_bytes;
  std::vector<CurvePoint> curve;
  const int last = largest > smallest ? std::max(1, points - 1) : 0;
  for (int i = 0; i <= last; ++i) {
    const Bytes limit =
        last == 0 ? largest
                  : smallest + (largest - smallest) / last * i + (i == last ? (largest - smallest) % last : 0);
    const Choice choice = search.plan_at(limit);
    if (const auto* plan = std::get_if<Plan>(&choice.answer))
      curve.push_back(describe(*problems[choice.problem], *plan, limit));
  }
  return curve;
}

std::vector<CurvePoint> make_curve(const Problem& problem, const Limits& limits, int points) {
  const Problem* const problems[] = {&problem};
  return make_curve(problem, problems, limits, points);
}

}  // namespace plimsoll::plan
