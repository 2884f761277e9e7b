// Memory against time: plans at lines from the smallest feasible to unconstrained.
#pragma once

#include <span>
#include <vector>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::plan {

struct CurvePoint {
  Bytes limit_bytes = 0;
  Bytes arena_bytes = 0;  // what the plan really takes
  double predicted_ns = 0;
  int64_t reruns = 0;    // tasks run more than once
  int64_t variants = 0;  // tasks with less workspace
  int64_t saves = 0;     // values written to disk
  int64_t micro_batches = 1;
  bool operator==(const CurvePoint&) const = default;
};

// At most so many points, the smallest line first; `limits.bytes` should be unlimited. Each point has the fastest plan
// of the problems, which are ways to run the step that `whole` describes.
std::vector<CurvePoint> make_curve(const Problem& whole, std::span<const Problem* const> problems, const Limits& limits,
                                   int points);
std::vector<CurvePoint> make_curve(const Problem& problem, const Limits& limits, int points);

}  // namespace plimsoll::plan
