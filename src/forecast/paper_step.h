// A planned step on ranks that need not exist: what each of them holds, and how long it takes on a given network.
#pragma once

#include "plan/plan.h"
#include "ranks/network_speed.h"
#include "report/scale_report.h"

namespace plimsoll::forecast {

// What the variables of a step take, divided into what Sharding lets ranks hold parts of.
struct SharedBytes {
  Bytes weights = 0, gradients = 0, state = 0;
  Bytes largest_unit = 0;  // weights that one task reads, which are gathered together
  // The bytes that a rank saves when each of so many holds a part. Negative where a gathered unit takes more.
  Bytes saved(Sharding part, int64_t ranks) const;
};
SharedBytes count_shared(const plan::Problem& problem, const plan::Plan& plan);

// The time of a step of `samples` samples on each of so many ranks. Costs of exchanges follow from their bytes and the
// network, those of other tasks from the problem. Where ranks hold parts of the state, each rank updates its part, and
// weights are gathered after the update. Where they hold parts of the weights, those are gathered before each use
// instead, one unit at a time, so that no computation hides it. Without parts it is what the planner predicts.
report::ScaleTime predict_paper_step(const plan::Problem& problem, const plan::Plan& plan, int64_t samples,
                                     Sharding part, int ranks, const ranks::NetworkSpeed& speed);

}  // namespace plimsoll::forecast
