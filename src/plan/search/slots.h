// From an order of tasks to lifetimes: when each buffer lives, which ones share a slot in place, and the peak.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace plimsoll::plan {

// What everything occupies, with the whole batch at once or in micro-batches.
struct Sizes {
  std::vector<Bytes> buffers;
  std::vector<Bytes> workspace;  // by task
  Bytes variables = 0;
};
Sizes measure(const Problem& problem, int64_t batch, int64_t micro_batches);

// A stretch of time at one place. Buffers that overwrite each other in place follow each other in one slot.
struct Slot {
  int32_t first_action = 0;
  int32_t last_action = 0;
  Bytes bytes = 0;
};

// The action with the most bytes alive, variables and its own workspace included; -1 when there are no actions.
struct Peak {
  Bytes bytes = 0;
  int32_t action = -1;
  double area = 0;  // bytes alive without workspace, summed over the actions
};
Peak find_peak(const Sizes& sizes, const std::vector<Slot>& slots, const std::vector<TaskId>& actions);

struct Timeline {
  std::vector<int32_t> first_action, last_action;  // by buffer; -1 when it is never alive
  std::vector<int32_t> slot_of;                    // by buffer; -1 for variables and what is never alive
  std::vector<Slot> slots;
  Bytes peak_bytes = 0;  // variables included
  int32_t peak_action = -1;
  double area = 0;  // bytes x actions: breaks ties between orders of equal peak
};
Timeline make_timeline(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place);
// The same into an existing timeline, whose memory is used again.
void find_timeline(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place,
                   Timeline& timeline);

}  // namespace plimsoll::plan
