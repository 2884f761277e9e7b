// Recompute: values are dropped and computed again before their next use, at the lowest cost in time.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

// One way to run the problem: `order` with tasks that run again put in.
struct Schedule {
  std::vector<TaskId> actions;
  Bytes peak_bytes = 0;  // variables included
  double extra_ns = 0;
};

enum class Effort { Thorough, Quick };  // quick: fewer targets, each tried in one way

// The fastest schedules found for a fixed ladder of targets from the order's own peak down to `floor_bytes`. They do
// not depend on any line, so that a larger line never gets a slower one. Effort is counted, never timed.
std::vector<Schedule> propose_schedules(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order,
                                        bool in_place, int64_t batch, Bytes floor_bytes,
                                        Effort effort = Effort::Thorough);

}  // namespace plimsoll::plan
